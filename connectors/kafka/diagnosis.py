"""Why no broker can be used, and what to do: found by looking once more, step by step.

Kafka's clients say little when the two sides speak different protocols (the broker just hangs up),
and give one text for several causes of a refused certificate. So the first address is tried by
hand: its name, its port, its encryption. What is left is what the client has reported.
"""

import socket
import ssl
from collections.abc import Iterable

from connectors.kafka.tls_failures import Diagnosis, no_handshake, refused_here, refused_there
from schemas.settings.connection import KafkaSettings

_TIMEOUT_S = 3.0

_PROTOCOL = "Check LOADSTREAM_KAFKA_SECURITY_PROTOCOL"


def explain(settings: KafkaSettings, reported: Iterable[str], waited_s: float | None) -> str:
    """Address, cause and remedy as sentences; `waited_s` is None if waiting was of no use."""
    servers = ",".join(settings.servers())
    within = "" if waited_s is None else f" within {waited_s:.0f} s"
    found = diagnose(settings, list(reported))
    protocol = settings.security_protocol
    return f"no usable broker at {servers}{within} ({protocol}): {found.cause}.\n{found.remedy}"


def diagnose(settings: KafkaSettings, reported: list[str]) -> Diagnosis:
    """The likeliest cause."""
    for text in reported:
        if "SASL" in text or "uthentication" in text:
            return Diagnosis(
                text,
                "Check LOADSTREAM_KAFKA_SASL_USERNAME, its password and "
                f"LOADSTREAM_KAFKA_SASL_MECHANISM (now {settings.sasl_mechanism}).",
            )
        refused = refused_there(text)
        if refused is not None:
            return refused
    host, _, port = settings.servers()[0].rpartition(":")
    return _probe(settings, host.strip("[]"), int(port)) or Diagnosis(
        "; ".join(reported[-3:]) or "no answer",
        "The broker's log says whether it stands still. If it works, check "
        "LOADSTREAM_KAFKA_SECURITY_PROTOCOL and, on the broker, the addresses that it advertises.",
    )


def _probe(settings: KafkaSettings, host: str, port: int) -> Diagnosis | None:
    """Connect by hand; None if that succeeds."""
    try:
        connection = socket.create_connection((host, port), timeout=_TIMEOUT_S)
    except socket.gaierror as error:
        return Diagnosis(
            f"the name {host} is not known ({error.strerror})",
            "Check LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS.",
        )
    except OSError as error:
        return Diagnosis(
            f"{host}:{port} takes no connection ({error.strerror or error})",
            "Check LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS and that the broker runs; `loadstream broker` "
            "starts a local one.",
        )
    with connection:
        if settings.encrypted:
            return _probe_trust(settings, connection, host)
        if _encrypts(connection):
            return Diagnosis(
                f"{host}:{port} speaks TLS", f"{_PROTOCOL}: expected is SSL or SASL_SSL."
            )
    return None


def _probe_trust(settings: KafkaSettings, connection: socket.socket, host: str) -> Diagnosis | None:
    context = settings.ssl_context()
    if context is None:
        return None
    try:
        context.wrap_socket(connection, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        return refused_here(error, host)
    except OSError as error:
        return no_handshake(error, host)
    return None


def _encrypts(connection: socket.socket) -> bool:
    """Whether the other side answers a TLS handshake; nothing is trusted or sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        context.wrap_socket(connection).close()
    except ssl.SSLError as error:
        # An alert is an answer in TLS as well.
        return "ALERT" in (error.reason or "")
    except OSError:
        return False
    return True
