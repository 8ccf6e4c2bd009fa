"""Find out why no broker can be used, and what to do.

Kafka's clients explain refused logins and most TLS alerts. They report little if both sides use
different protocols (the broker just disconnects), and the same text for several causes of a refused
certificate. Then this module tests the first address step by step: name, port, encryption.
"""

import socket
import ssl
from collections.abc import Mapping
from typing import NamedTuple

from schemas.settings.connection import KafkaSettings

_CERTIFICATE = "LOADSTREAM_KAFKA_CLIENT_CERTIFICATE_FILE"
_CA = "LOADSTREAM_KAFKA_CA_FILE"
_SERVERS = "Check LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS"
_PROTOCOL = "Check LOADSTREAM_KAFKA_SECURITY_PROTOCOL"
_UNTRUSTED = f"Check {_CA}: it must contain the authority that signed the broker's certificate."
_NO_COMMON_TLS = (
    "Both sides have no TLS version or cipher in common, or the broker requires a client certificate "
    f"({_CERTIFICATE}): check the listener's ssl.enabled.protocols, ssl.cipher.suites and ssl.client.auth."
)
#: Advice by words in OpenSSL's reason why this side refuses the broker's certificate.
_CERTIFICATE_ADVICE: Mapping[str, str] = {
    "expired": "Renew the certificate of the broker or of its authority, or check the clock of this machine.",
    "not yet valid": "Check the clocks of this machine and of the issuer of the broker's certificate.",
    "mismatch": "Use an address that the certificate contains, or a certificate that contains the address. "
    "LOADSTREAM_KAFKA_CHECK_HOSTNAME=false disables this check.",
    "issuer": _UNTRUSTED,
    "self-signed": _UNTRUSTED,
    "self signed": _UNTRUSTED,
    "verify the first certificate": _UNTRUSTED,
}
#: Advice by words in OpenSSL's text about an alert of the broker, or about a failed handshake.
_HANDSHAKE_ADVICE: Mapping[str, str] = {
    "certificate required": f"The broker requires a client certificate: set {_CERTIFICATE} and "
    "LOADSTREAM_KAFKA_CLIENT_KEY_FILE.",
    "certificate expired": f"The client's certificate ({_CERTIFICATE}) has expired: renew it, or check the clock "
    "of the broker.",
    "unknown ca": f"The broker does not know the authority that signed the client's certificate ({_CERTIFICATE}): "
    "add it to the broker's truststore, or use a certificate of an authority in it.",
    "access denied": "The broker accepts the client's certificate, but denies access: give its name rights (ACLs).",
    "unrecognized name": f"{_SERVERS}: the broker has no certificate for the name in the address.",
    "handshake failure": _NO_COMMON_TLS,
    "protocol version": _NO_COMMON_TLS,
    "insufficient security": _NO_COMMON_TLS,
    "unsupported protocol": _NO_COMMON_TLS,
    "no protocols available": _NO_COMMON_TLS,
    "no shared cipher": _NO_COMMON_TLS,
    # Any other alert.
    "alert": f"The broker refuses the client's certificate ({_CERTIFICATE}): it must be signed by an authority that "
    "the broker trusts, valid for clients, not expired and not revoked.",
}
_TIMEOUT_S = 3.0


class Diagnosis(NamedTuple):
    cause: str
    remedy: str


def explain(settings: KafkaSettings, reported: list[str], waited_s: float | None) -> str:
    """Return address, cause and advice as sentences; `waited_s` is None if waiting does not help."""
    servers = ",".join(settings.servers())
    within = "" if waited_s is None else f" within {waited_s:.0f} s"
    cause, remedy = diagnose(settings, reported)
    return (
        f"no usable broker at {servers}{within} ({settings.security_protocol}): {cause}.\n{remedy}"
    )


def diagnose(settings: KafkaSettings, reported: list[str]) -> Diagnosis:
    """Return the most likely cause; `reported` has the errors of a client."""
    for text in reported:
        if "SASL" in text or "uthentication" in text:
            return Diagnosis(
                text,
                "Check LOADSTREAM_KAFKA_SASL_USERNAME, its password and "
                f"LOADSTREAM_KAFKA_SASL_MECHANISM (now {settings.sasl_mechanism}).",
            )
        if "alert" in text.lower():
            return Diagnosis(text, _find_advice(_HANDSHAKE_ADVICE, text) or "")
    host, _, port = settings.servers()[0].rpartition(":")
    return _probe(settings, host.strip("[]"), int(port)) or Diagnosis(
        "; ".join(reported[-3:]) or "no answer",
        "Check in the broker's log whether it works. If it does, check "
        "LOADSTREAM_KAFKA_SECURITY_PROTOCOL and, on the broker, the addresses that it advertises.",
    )


def _find_advice(advice: Mapping[str, str], text: str) -> str | None:
    """Return the advice of the first words that the text contains."""
    plain_text = text.lower().replace("_", " ")
    return next((remedy for words, remedy in advice.items() if words in plain_text), None)


def _probe(settings: KafkaSettings, host: str, port: int) -> Diagnosis | None:
    """Connect step by step; return the first step that fails, or None."""
    try:
        connection = socket.create_connection((host, port), timeout=_TIMEOUT_S)
    except socket.gaierror as error:
        return Diagnosis(f"the name {host} is not known ({error.strerror})", f"{_SERVERS}.")
    except OSError as error:
        return Diagnosis(
            f"{host}:{port} does not accept connections ({error.strerror or error})",
            f"{_SERVERS} and that the broker runs; `loadstream broker` starts a local one.",
        )
    with connection:
        context = settings.ssl_context()
        if context is not None:
            return _probe_tls(context, connection, host)
        if _encrypts(connection):
            return Diagnosis(f"{host}:{port} uses TLS", f"{_PROTOCOL}: expected SSL or SASL_SSL.")
    return None


def _probe_tls(context: ssl.SSLContext, connection: socket.socket, host: str) -> Diagnosis | None:
    try:
        context.wrap_socket(connection, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        cause = error.verify_message.rstrip(".")
        remedy = _find_advice(_CERTIFICATE_ADVICE, cause) or "Give the broker another certificate."
        return Diagnosis(f"the broker's certificate is refused: {cause}", remedy)
    except OSError as error:
        reason = getattr(error, "reason", None) or error.strerror or str(error)
        no_tls = f"{_PROTOCOL}: the listener does not seem to use TLS."
        remedy = _find_advice(_HANDSHAKE_ADVICE, reason) or no_tls
        return Diagnosis(f"the TLS handshake with {host} failed ({reason})", remedy)
    return None


def _encrypts(connection: socket.socket) -> bool:
    """Tell whether the other side answers a TLS handshake; no application data is sent."""
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
