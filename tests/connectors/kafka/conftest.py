"""A real Kafka whose listeners use encryption and authentication, with a test authority."""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from connectors.brokers.server import KafkaServer
from connectors.kafka import diagnosis
from connectors.kafka.admin import create_topics
from connectors.kafka.client import connect
from connectors.kafka.topics import expected_topics
from schemas.settings.connection import KafkaSettings
from tests.conftest import patient, running

USER = "alice"
PASSWORD = 'open "sesame" \\ 7'  # noqa: S105 - of a broker that lives for one test run
KEY_PASSWORD = "client-key-password"  # noqa: S105 - of a key that lives for one test run

#: Settings for each listener without the address; `{name}` stands for a file of the authority.
PROFILES: dict[str, dict[str, Any]] = {
    "scram-512": {
        "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-512", "ca_file": "ca.pem",
    },
    "scram-256": {
        "security_protocol": "SASL_SSL", "sasl_mechanism": "SCRAM-SHA-256", "ca_file": "ca.pem",
    },
    "plain": {"security_protocol": "SASL_SSL", "sasl_mechanism": "PLAIN", "ca_file": "ca.pem"},
    "unencrypted": {"security_protocol": "SASL_PLAINTEXT", "sasl_mechanism": "SCRAM-SHA-512"},
    "mutual": {
        "security_protocol": "SSL", "ca_file": "ca.pem", "client_certificate_file": "client.pem",
        "client_key_file": "client.key", "client_key_password": KEY_PASSWORD,
    },
    "misnamed": {"security_protocol": "SSL", "ca_file": "ca.pem", "check_hostname": False},
}  # fmt: skip

#: Like `PROFILES`, for listeners that clients refuse.
_UNUSABLE: dict[str, dict[str, Any]] = {
    "expired": {"security_protocol": "SSL", "ca_file": "ca.pem"},
}  # fmt: skip

_LISTENERS = {
    "LOGIN": "SASL_SSL",
    "OPENLOGIN": "SASL_PLAINTEXT",
    "MUTUAL": "SSL",
    "MISNAMED": "SSL",
    "EXPIRED": "SSL",
}
_LISTENER_OF = {
    "unencrypted": "OPENLOGIN",
    "mutual": "MUTUAL",
    "misnamed": "MISNAMED",
    "expired": "EXPIRED",
}

#: Returns settings for a profile; keyword arguments override its settings.
Secured = Callable[..., KafkaSettings]


@pytest.fixture(autouse=True)
def _long_diagnosis_timeout(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the diagnosis wait for a slow listener."""
    monkeypatch.setattr(diagnosis, "_TIMEOUT_S", 60.0)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory with certificates and keys: ca, other-ca, server, misnamed, expired, client."""
    directory = tmp_path_factory.mktemp("authority")
    _issue(directory, "ca", "-subj", "/CN=authority", "-noenc")
    _issue(directory, "other-ca", "-subj", "/CN=stranger", "-noenc")
    signed = ("-CA", "ca.pem", "-CAkey", "ca.key")
    _issue(directory, "server", *signed, *_names("IP:127.0.0.1"), "-noenc")
    _issue(directory, "misnamed", *signed, *_names("DNS:elsewhere.example"), "-noenc")
    _issue_expired(directory, "expired", *_names("IP:127.0.0.1"))
    _issue(directory, "client", *signed, *_names("DNS:client"), "-passout", f"pass:{KEY_PASSWORD}")
    return directory


def _names(name: str) -> tuple[str, ...]:
    return ("-subj", "/CN=test", "-addext", f"subjectAltName={name}")


_NEW_KEY = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1")


def _issue(directory: Path, name: str, *options: str) -> None:
    command = [
        "openssl", "req", "-x509", *_NEW_KEY,
        "-days", "2", "-keyout", f"{name}.key", "-out", f"{name}.pem", *options,
    ]  # fmt: skip
    subprocess.run(command, cwd=directory, check=True, capture_output=True)  # noqa: S603 - constants


def _issue_expired(directory: Path, name: str, *options: str) -> None:
    """Issue a certificate that expired yesterday; OpenSSL accepts such dates only for a request."""
    for command in (
        ["req", *_NEW_KEY, "-noenc", "-keyout", f"{name}.key", "-out", f"{name}.csr", *options],
        [
            "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key", "-days", "-1",
            "-copy_extensions", "copy", "-out", f"{name}.pem",
        ],
    ):  # fmt: skip
        subprocess.run(["openssl", *command], cwd=directory, check=True, capture_output=True)  # noqa: S603, S607 - constants


@pytest.fixture(scope="session")
def secured(authority: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    """A real Kafka with a listener for each profile, and all topics."""
    server = KafkaServer(
        tmp_path_factory.mktemp("secured"),
        listeners=_LISTENERS,
        properties=_properties(authority),
        scram_users={USER: PASSWORD},
    )
    with running(server):
        create_topics(connect(patient(server.settings)), expected_topics(server.settings))

        def settings(profile: str, **overrides: Any) -> KafkaSettings:
            values: dict[str, Any] = {
                "bootstrap_servers": server.address(_LISTENER_OF.get(profile, "LOGIN"))
            }
            values |= (PROFILES | _UNUSABLE)[profile]
            if "SASL" in values["security_protocol"]:
                values |= {"sasl_username": USER, "sasl_password": PASSWORD}
            values |= overrides
            for name, value in values.items():
                if name.endswith("_file") and value is not None:
                    values[name] = str(authority / value)
            return KafkaSettings(**values)

        yield settings


def _properties(authority: Path) -> dict[str, str]:
    def pem(name: str) -> str:
        return (authority / name).read_text()

    properties: dict[str, str] = {}
    for listener, certificate in (
        ("login", "server"),
        ("mutual", "server"),
        ("misnamed", "misnamed"),
        ("expired", "expired"),
    ):
        properties |= {
            f"listener.name.{listener}.ssl.keystore.type": "PEM",
            f"listener.name.{listener}.ssl.keystore.certificate.chain": pem(f"{certificate}.pem"),
            f"listener.name.{listener}.ssl.keystore.key": pem(f"{certificate}.key"),
        }
    properties |= {
        "listener.name.mutual.ssl.client.auth": "required",
        "listener.name.mutual.ssl.truststore.type": "PEM",
        "listener.name.mutual.ssl.truststore.certificates": pem("ca.pem"),
    }
    escaped = PASSWORD.replace("\\", "\\\\").replace('"', '\\"')
    modules = {
        "scram-sha-256": "scram.ScramLoginModule required",
        "scram-sha-512": "scram.ScramLoginModule required",
        "plain": f'plain.PlainLoginModule required user_{USER}="{escaped}"',
    }
    for listener, mechanisms in (
        ("login", ",".join(modules).upper()),
        ("openlogin", "SCRAM-SHA-512"),
    ):
        properties[f"listener.name.{listener}.sasl.enabled.mechanisms"] = mechanisms
        for mechanism, module in modules.items():
            properties[f"listener.name.{listener}.{mechanism}.sasl.jaas.config"] = (
                f"org.apache.kafka.common.security.{module};".replace("\\", "\\\\")
            )
    return properties
