"""Faust gets the same connection as every other client."""

import ssl

import faust
import pytest

from schemas.settings.connection import KafkaSettings
from streams.worker.consume.transport import broker_credentials

LOGIN = {"sasl_username": "alice", "sasl_password": "kRh3-secret", "bootstrap_servers": "a:1"}


def test_encryption_alone_carries_the_trust_of_the_settings() -> None:
    settings = KafkaSettings(bootstrap_servers="a:1", security_protocol="SSL", check_hostname=False)
    credentials = broker_credentials(settings)
    assert isinstance(credentials, faust.SSLCredentials)
    assert credentials.context.verify_mode is ssl.CERT_REQUIRED
    assert not credentials.context.check_hostname


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_login_carries_name_password_mechanism_and_encryption(
    protocol: str, mechanism: str
) -> None:
    settings = KafkaSettings(
        security_protocol=protocol,
        sasl_mechanism=mechanism,
        **LOGIN,  # type: ignore[arg-type]
    )
    credentials = broker_credentials(settings)
    assert isinstance(credentials, faust.SASLCredentials)
    assert credentials.protocol.value == protocol
    assert credentials.mechanism.value == mechanism
    assert (credentials.username, credentials.password) == ("alice", "kRh3-secret")
    assert (credentials.ssl_context is not None) == (protocol == "SASL_SSL")
    assert "kRh3-secret" not in repr(credentials)
