"""Why no broker can be used, and what to do: found by looking once more, step by step.

Kafka's clients say little when the two sides speak different protocols (the broker just hangs up),
and give one text for several causes of a refused certificate. So the first address is tried by
hand: its name, its port, its encryption. What is left is what the client has reported.
"""

import re
import socket
import ssl
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from schemas.settings.connection import KafkaSettings

_CERTIFICATE = "LOADSTREAM_KAFKA_CLIENT_CERTIFICATE_FILE"
_KEY = "LOADSTREAM_KAFKA_CLIENT_KEY_FILE"
_CA = "LOADSTREAM_KAFKA_CA_FILE"
_PROTOCOL = "Check LOADSTREAM_KAFKA_SECURITY_PROTOCOL"


@dataclass(frozen=True, slots=True)
class Diagnosis:
    """A cause and what to do about it."""

    cause: str
    remedy: str


_EXPIRED = (
    "Renew it on the broker (or the authority's, if that is the one that has expired), and check the clock of this "
    f"machine. {_CA} is not the cause."
)
_EARLY = (
    "Check the clocks of this machine and of the one that issued it: the certificate, or its authority's, holds only "
    f"from a later time on. {_CA} is not the cause."
)
_UNTRUSTED = f"Check {_CA}: it must hold the authority that signed the broker's certificate."
_MISNAMED = (
    "Use an address that the certificate names instead of {host}, or a certificate that names it. "
    "LOADSTREAM_KAFKA_CHECK_HOSTNAME=false gives up that protection."
)
_UNFIT = "Give the broker another certificate: one for servers, with a key and a signature of today's strength."
#: By OpenSSL's number of a verification error; `{host}` is the address.
_REFUSED_HERE: Mapping[int, str] = {
    9: _EARLY,
    10: _EXPIRED,
    18: _UNTRUSTED,
    19: _UNTRUSTED,
    20: _UNTRUSTED,
    21: _UNTRUSTED,
    23: "It was revoked: give the broker another certificate.",
    26: _UNFIT,
    62: _MISNAMED,
    64: _MISNAMED,
    66: _UNFIT,
    67: _UNFIT,
    68: _UNFIT,
}

_CLIENT_REFUSED = (
    f"The broker refuses the client's certificate ({_CERTIFICATE}): it must be signed by an authority that the broker "
    "trusts, for clients, be in force and not revoked."
)
_NO_COMMON_WAY = (
    "The two sides have no version of TLS or no cipher in common, or the broker asks for a client certificate "
    f"({_CERTIFICATE}): check the listener's ssl.enabled.protocols, ssl.cipher.suites and ssl.client.auth."
)
#: By the number of an alert that the broker has sent.
_REFUSED_THERE: Mapping[int, str] = {
    40: _NO_COMMON_WAY,
    42: _CLIENT_REFUSED,
    43: _CLIENT_REFUSED,
    44: f"The client's certificate ({_CERTIFICATE}) was revoked: use another one.",
    45: f"The client's certificate ({_CERTIFICATE}) has expired: renew it, or check the clock of the broker.",
    46: _CLIENT_REFUSED,
    48: f"The broker does not know the authority that signed the client's certificate ({_CERTIFICATE}): add it to "
    "the broker's truststore, or use a certificate of an authority in it.",
    49: "The broker knows the client's certificate and lets it do nothing: give its name rights (ACLs).",
    70: _NO_COMMON_WAY,
    71: _NO_COMMON_WAY,
    112: "The broker has no certificate for the name in the address: check LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS.",
    116: f"The broker asks for a client certificate: set {_CERTIFICATE} and {_KEY}.",
}
#: Words of alerts, if a text has no number: Python's reasons, and OpenSSL's texts.
_WORDS: Mapping[str, int] = {
    "certificate required": 116,
    "certificate expired": 45,
    "certificate revoked": 44,
    "certificate unknown": 46,
    "unsupported certificate": 43,
    "bad certificate": 42,
    "unknown ca": 48,
    "access denied": 49,
    "protocol version": 70,
    "insufficient security": 71,
    "handshake failure": 40,
    "unrecognized name": 112,
}
_NUMBER = re.compile(r"alert number (\d+)")


def refused_here(error: ssl.SSLCertVerificationError, host: str) -> Diagnosis:
    """This side does not take the broker's certificate."""
    remedy = _REFUSED_HERE.get(error.verify_code)
    if remedy is None:
        remedy = f"Check the broker's certificate, and {_CA}, which must hold the authority that signed it."
    cause = f"the broker's certificate is refused: {error.verify_message.rstrip('.')}"
    return Diagnosis(cause, remedy.format(host=host))


def refused_there(text: str) -> Diagnosis | None:
    """The broker has sent an alert, as a client reports it; None: the text names none."""
    number = _alert(text)
    if number is None:
        return None
    return Diagnosis(text, _REFUSED_THERE.get(number, _CLIENT_REFUSED))


def no_handshake(error: OSError, host: str) -> Diagnosis:
    """A handshake failed, not for the broker's certificate."""
    reason = (getattr(error, "reason", None) or "").lower().replace("_", " ")
    cause = f"no TLS handshake with {host} ({reason or error.strerror or error})"
    number = _alert(f"{reason} {error}") if "alert" in reason else None
    if number is not None:
        return Diagnosis(cause, _REFUSED_THERE.get(number, _CLIENT_REFUSED))
    if reason in ("unsupported protocol", "no protocols available", "no shared cipher"):
        return Diagnosis(cause, _NO_COMMON_WAY)
    return Diagnosis(cause, f"{_PROTOCOL}: the listener seems not to encrypt.")


def _alert(text: str) -> int | None:
    lower = text.lower().replace("_", " ")
    if "alert" not in lower:
        return None
    found = _NUMBER.search(lower)
    if found is not None:
        return int(found[1])
    return next((number for words, number in _WORDS.items() if words in lower), -1)


_TIMEOUT_S = 3.0


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
