"""Settings of the connection: validation, defaults, and secrets."""

import logging
import ssl
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.base.docstrings import field_docstrings
from schemas.settings.announcement import announce
from schemas.settings.connection import KafkaSettings, NoBroker
from schemas.settings.environment import SettingsError

SECRET = "kRh3-very-secret"  # noqa: S105 - it opens nothing

LOGIN = {"security_protocol": "SASL_SSL", "sasl_username": "alice", "sasl_password": SECRET}


def _environment(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    for name, value in values.items():
        monkeypatch.setenv(f"LOADSTREAM_KAFKA_{name.upper()}", value)


def test_the_local_broker_is_the_default(cache: Path) -> None:
    settings = KafkaSettings.from_environment()
    with pytest.raises(NoBroker, match="loadstream broker"):
        settings.servers()
    with announce("127.0.0.1:4711"):
        assert settings.servers() == ("127.0.0.1:4711",)
        assert settings.aiokafka_options()["bootstrap_servers"] == ["127.0.0.1:4711"]
    with pytest.raises(NoBroker):
        settings.librdkafka_options()


def test_a_configured_address_takes_precedence_over_an_announced_one(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _environment(monkeypatch, bootstrap_servers=" kafka-0:9092, [::1]:9093 ,")
    with announce("127.0.0.1:4711"):
        assert KafkaSettings.from_environment().servers() == ("kafka-0:9092", "[::1]:9093")


@pytest.mark.parametrize("server", ["kafka", "kafka:", ":9092", "kafka:0", "kafka:70000", "a b:1"])
def test_an_address_without_host_or_port_is_refused(
    server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _environment(monkeypatch, bootstrap_servers=f"good:1,{server}")
    with pytest.raises(SettingsError, match="LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS: found"):
        KafkaSettings.from_environment()


@pytest.mark.parametrize(
    ("values", "complaint"),
    [
        ({"security_protocol": "SASL_SSL"}, "SASL_USERNAME is missing"),
        ({"security_protocol": "SASL_SSL", "sasl_username": "a"}, "exactly one of"),
        (LOGIN | {"sasl_password_file": __file__}, "exactly one of"),
        ({"sasl_username": "alice"}, "does not log in"),
        ({"security_protocol": "SSL", "sasl_password": SECRET}, "does not log in"),
        ({"sasl_mechanism": "PLAIN"}, "does not log in"),
        ({"ca_file": __file__}, "does not encrypt"),
        ({"check_hostname": False}, "CHECK_HOSTNAME is set, .* does not encrypt"),
        ({"security_protocol": "SSL", "client_key_password": SECRET}, "CLIENT_KEY_FILE is not"),
        ({"security_protocol": "SSL", "client_key_file": __file__}, "one is missing"),
        ({"security_protocol": "SSL", "client_certificate_file": __file__}, "one is missing"),
        ({"security_protocol": "SSL", "ca_file": "/no/such/file"}, "/no/such/file does not exist"),
        ({"security_protocol": "SSL", "ca_file": "/"}, "file / does not exist"),
    ],
)
def test_settings_that_cannot_work_together_are_refused(
    values: dict[str, Any], complaint: str
) -> None:
    with pytest.raises(SettingsError, match=complaint) as caught:
        KafkaSettings.from_environment(**values)
    assert SECRET not in str(caught.value)


def test_no_text_about_the_settings_contains_a_secret(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    settings = KafkaSettings(**LOGIN)  # type: ignore[arg-type]  # pydantic reads them
    logging.getLogger(__name__).warning("connecting with %s %r", settings, settings)
    texts = [repr(settings), str(settings), settings.model_dump_json(), caplog.text]
    _environment(monkeypatch, security_protocol="WRONG", sasl_password=SECRET)
    with pytest.raises(ValidationError) as refused:
        KafkaSettings()
    texts += [str(refused.value), repr(refused.value)]
    assert [text for text in texts if SECRET in text] == []


@pytest.mark.parametrize("ending", ["", "\n", "\r\n"])
def test_a_password_file_is_read_on_demand_and_without_its_line_end(
    ending: str, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_bytes(b"before")
    settings = KafkaSettings(
        bootstrap_servers="a:1", security_protocol="SASL_PLAINTEXT", sasl_username="alice",
        sasl_password_file=file,
    )  # fmt: skip
    file.write_bytes(f" {SECRET} {ending}".encode())
    assert settings.aiokafka_options()["sasl_plain_password"] == f" {SECRET} "
    assert settings.librdkafka_options()["sasl.password"] == f" {SECRET} "


@pytest.mark.parametrize(
    ("content", "message"),
    [(b"", "is empty"), (b"\n", "is empty"), (b"\xff\xfe", "is not UTF-8 text")],
)
def test_an_error_names_a_password_file_without_a_password(
    content: bytes, message: str, tmp_path: Path
) -> None:
    file = tmp_path / "password"
    file.write_bytes(content)
    settings = KafkaSettings(
        bootstrap_servers="a:1", security_protocol="SASL_PLAINTEXT", sasl_username="alice",
        sasl_password_file=file,
    )  # fmt: skip
    for use in (settings.aiokafka_options, settings.librdkafka_options, settings.secrets):
        with pytest.raises(SettingsError, match=f"LOADSTREAM_KAFKA_SASL_PASSWORD_FILE=.*{message}"):
            use()


def test_a_plain_connection_has_no_security_options() -> None:
    settings = KafkaSettings.local("a:1,b:2", client_id="reader")
    assert settings.ssl_context() is None
    assert settings.password() is None
    assert settings.aiokafka_options() == {
        "bootstrap_servers": ["a:1", "b:2"],
        "client_id": "reader",
        "security_protocol": "PLAINTEXT",
    }
    assert settings.librdkafka_options() == {
        "bootstrap.servers": "a:1,b:2",
        "client.id": "reader",
        "security.protocol": "PLAINTEXT",
    }


def test_local_settings_ignore_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    _environment(monkeypatch, security_protocol="SSL", partitions="9")
    settings = KafkaSettings.local("a:1")
    assert not settings.encrypted
    assert settings.partitions == 4


def test_certificates_are_verified_without_host_names() -> None:
    settings = KafkaSettings(bootstrap_servers="a:1", security_protocol="SSL", check_hostname=False)
    context = settings.ssl_context()
    assert context is not None
    assert context.verify_mode is ssl.CERT_REQUIRED
    assert not context.check_hostname
    assert settings.librdkafka_options()["ssl.endpoint.identification.algorithm"] == "none"
    assert "enable.ssl.certificate.verification" not in settings.librdkafka_options()


def test_an_error_names_a_file_that_is_no_certificate(tmp_path: Path) -> None:
    wrong = tmp_path / "ca.pem"
    wrong.write_text("no certificate")
    settings = KafkaSettings(bootstrap_servers="a:1", security_protocol="SSL", ca_file=wrong)
    with pytest.raises(SettingsError, match=f"LOADSTREAM_KAFKA_CA_FILE={wrong}"):
        settings.aiokafka_options()


def test_every_setting_has_a_description() -> None:
    assert set(KafkaSettings.model_fields) - field_docstrings(KafkaSettings).keys() == set()


@given(st.lists(st.from_regex(r"[a-z0-9.-]{1,20}:[1-9][0-9]{0,3}", fullmatch=True), min_size=1))
def test_both_libraries_get_all_addresses_in_order(servers: list[str]) -> None:
    settings = KafkaSettings.local(" , ".join(servers))
    assert settings.aiokafka_options()["bootstrap_servers"] == servers
    assert settings.librdkafka_options()["bootstrap.servers"] == ",".join(servers)
