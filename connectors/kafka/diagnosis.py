"""Find out why no broker can be used, and what to do.

Kafka's clients explain refused logins and most TLS alerts. They report little if both sides use
different protocols (the broker just disconnects), and the same text for several causes of a refused
certificate. Then this module tests the first address step by step: name, port, encryption.
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
    cause: str
    remedy: str


_EXPIRED = (
    "Renew the certificate of the broker or of its authority, and check the clock of this machine. "
    f"{_CA} is not the cause."
)
_EARLY = (
    "Check the clocks of this machine and of the issuer: the certificate of the broker or of its authority is "
    f"not valid yet. {_CA} is not the cause."
)
_UNTRUSTED = f"Check {_CA}: it must contain the authority that signed the broker's certificate."
_MISNAMED = (
    "Use an address that the certificate contains, or a certificate that contains {host}. "
    "LOADSTREAM_KAFKA_CHECK_HOSTNAME=false disables this check."
)
_UNSUITABLE = "Give the broker another certificate: for servers, with a strong key and signature."
#: Advice by OpenSSL's verification error; `{host}` is the address.
_VERIFICATION_ADVICE: Mapping[int, str] = {
    9: _EARLY,
    10: _EXPIRED,
    18: _UNTRUSTED,
    19: _UNTRUSTED,
    20: _UNTRUSTED,
    21: _UNTRUSTED,
    23: "The certificate was revoked: give the broker another certificate.",
    26: _UNSUITABLE,
    62: _MISNAMED,
    64: _MISNAMED,
    66: _UNSUITABLE,
    67: _UNSUITABLE,
    68: _UNSUITABLE,
}

_CLIENT_REFUSED = (
    f"The broker refuses the client's certificate ({_CERTIFICATE}): it must be signed by an authority that the broker "
    "trusts, valid for clients, not expired and not revoked."
)
_NO_COMMON_TLS = (
    "Both sides have no TLS version or cipher in common, or the broker requires a client certificate "
    f"({_CERTIFICATE}): check the listener's ssl.enabled.protocols, ssl.cipher.suites and ssl.client.auth."
)
#: Advice by the number of a TLS alert from the broker.
_ALERT_ADVICE: Mapping[int, str] = {
    40: _NO_COMMON_TLS,
    42: _CLIENT_REFUSED,
    43: _CLIENT_REFUSED,
    44: f"The client's certificate ({_CERTIFICATE}) was revoked: use another one.",
    45: f"The client's certificate ({_CERTIFICATE}) has expired: renew it, or check the clock of the broker.",
    46: _CLIENT_REFUSED,
    48: f"The broker does not know the authority that signed the client's certificate ({_CERTIFICATE}): add it to "
    "the broker's truststore, or use a certificate of an authority in it.",
    49: "The broker accepts the client's certificate, but denies access: give its name rights (ACLs).",
    70: _NO_COMMON_TLS,
    71: _NO_COMMON_TLS,
    112: "The broker has no certificate for the name in the address: check LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS.",
    116: f"The broker requires a client certificate: set {_CERTIFICATE} and {_KEY}.",
}
#: Alerts by name, for texts without a number (Python's reasons and OpenSSL's texts).
_ALERT_NAMES: Mapping[str, int] = {
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


def diagnose_refused_certificate(error: ssl.SSLCertVerificationError, host: str) -> Diagnosis:
    """Explain why this side refuses the broker's certificate."""
    remedy = _VERIFICATION_ADVICE.get(error.verify_code)
    if remedy is None:
        remedy = f"Check the broker's certificate, and {_CA}, which must contain the authority that signed it."
    cause = f"the broker's certificate is refused: {error.verify_message.rstrip('.')}"
    return Diagnosis(cause, remedy.format(host=host))


def diagnose_alert(text: str) -> Diagnosis | None:
    """Explain a TLS alert of the broker in a client's error; None: the text has no alert."""
    number = _parse_alert(text)
    if number is None:
        return None
    return Diagnosis(text, _ALERT_ADVICE.get(number, _CLIENT_REFUSED))


def diagnose_handshake(error: OSError, host: str) -> Diagnosis:
    """Explain a handshake that failed for another reason than the broker's certificate."""
    reason = (getattr(error, "reason", None) or "").lower().replace("_", " ")
    cause = f"the TLS handshake with {host} failed ({reason or error.strerror or error})"
    number = _parse_alert(f"{reason} {error}") if "alert" in reason else None
    if number is not None:
        return Diagnosis(cause, _ALERT_ADVICE.get(number, _CLIENT_REFUSED))
    if reason in ("unsupported protocol", "no protocols available", "no shared cipher"):
        return Diagnosis(cause, _NO_COMMON_TLS)
    return Diagnosis(cause, f"{_PROTOCOL}: the listener does not seem to use TLS.")


def _parse_alert(text: str) -> int | None:
    lower = text.lower().replace("_", " ")
    if "alert" not in lower:
        return None
    match = _NUMBER.search(lower)
    if match is not None:
        return int(match[1])
    return next((number for words, number in _ALERT_NAMES.items() if words in lower), -1)


_TIMEOUT_S = 3.0


def explain(settings: KafkaSettings, reported: Iterable[str], waited_s: float | None) -> str:
    """Return address, cause and advice as sentences; `waited_s` is None if waiting does not help."""
    servers = ",".join(settings.servers())
    within = "" if waited_s is None else f" within {waited_s:.0f} s"
    diagnosis = diagnose(settings, list(reported))
    protocol = settings.security_protocol
    return f"no usable broker at {servers}{within} ({protocol}): {diagnosis.cause}.\n{diagnosis.remedy}"


def diagnose(settings: KafkaSettings, reported: list[str]) -> Diagnosis:
    """Return the most likely cause."""
    for text in reported:
        if "SASL" in text or "uthentication" in text:
            return Diagnosis(
                text,
                "Check LOADSTREAM_KAFKA_SASL_USERNAME, its password and "
                f"LOADSTREAM_KAFKA_SASL_MECHANISM (now {settings.sasl_mechanism}).",
            )
        refused = diagnose_alert(text)
        if refused is not None:
            return refused
    host, _, port = settings.servers()[0].rpartition(":")
    return _probe(settings, host.strip("[]"), int(port)) or Diagnosis(
        "; ".join(reported[-3:]) or "no answer",
        "Check in the broker's log whether it works. If it does, check "
        "LOADSTREAM_KAFKA_SECURITY_PROTOCOL and, on the broker, the addresses that it advertises.",
    )


def _probe(settings: KafkaSettings, host: str, port: int) -> Diagnosis | None:
    """Connect step by step; return the first step that fails, or None."""
    try:
        connection = socket.create_connection((host, port), timeout=_TIMEOUT_S)
    except socket.gaierror as error:
        return Diagnosis(
            f"the name {host} is not known ({error.strerror})",
            "Check LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS.",
        )
    except OSError as error:
        return Diagnosis(
            f"{host}:{port} does not accept connections ({error.strerror or error})",
            "Check LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS and that the broker runs; `loadstream broker` "
            "starts a local one.",
        )
    with connection:
        if settings.encrypted:
            return _probe_tls(settings, connection, host)
        if _encrypts(connection):
            return Diagnosis(f"{host}:{port} uses TLS", f"{_PROTOCOL}: expected SSL or SASL_SSL.")
    return None


def _probe_tls(settings: KafkaSettings, connection: socket.socket, host: str) -> Diagnosis | None:
    context = settings.ssl_context()
    if context is None:
        return None
    try:
        context.wrap_socket(connection, server_hostname=host).close()
    except ssl.SSLCertVerificationError as error:
        return diagnose_refused_certificate(error, host)
    except OSError as error:
        return diagnose_handshake(error, host)
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
