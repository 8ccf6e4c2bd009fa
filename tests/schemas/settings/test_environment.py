"""Errors about environment variables that are not settings or have wrong values."""

import pytest

from schemas.settings.connection import KafkaSettings
from schemas.settings.environment import SettingsError


def _environment(monkeypatch: pytest.MonkeyPatch, **values: str) -> None:
    for name, value in values.items():
        monkeypatch.setenv(f"LOADSTREAM_KAFKA_{name.upper()}", value)


def test_a_misspelt_variable_is_an_error_and_not_a_default(monkeypatch: pytest.MonkeyPatch) -> None:
    _environment(monkeypatch, securty_protocol="SSL")
    with pytest.raises(SettingsError, match="did you mean LOADSTREAM_KAFKA_SECURITY_PROTOCOL"):
        KafkaSettings.from_environment()


@pytest.mark.parametrize(
    ("variable", "meant"),
    [
        ("LOADSTREAM_KAKFA_BOOTSTRAP_SERVERS", "LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS"),
        ("LOADSTREAM_BOOTSTRAP_SERVERS", "LOADSTREAM_KAFKA_BOOTSTRAP_SERVERS"),
        ("loadstream_kafkapartitions", "LOADSTREAM_KAFKA_PARTITIONS"),
    ],
)
def test_a_variable_whose_prefix_is_misspelt_is_an_error_too(
    variable: str, meant: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "a:1")
    with pytest.raises(SettingsError, match=f"{variable}: .*did you mean {meant}"):
        KafkaSettings.from_environment()


def test_foreign_variables_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    # Variables of a worker, of a test run, and of a Kubernetes Service named loadstream.
    for variable in (
        "WORKER_STAGES",
        "REQUIRE_ALL",
        "SERVICE_HOST",
        "PORT",
        "SERVICE_PORT_METRICS",
    ):
        monkeypatch.setenv(f"LOADSTREAM_{variable}", "1")
    KafkaSettings.from_environment()


def test_every_problem_is_reported_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    _environment(monkeypatch, partitions="0", security_protocol="TLS", nonsense="1")
    with pytest.raises(SettingsError) as caught:
        KafkaSettings.from_environment()
    text = str(caught.value)
    assert 'LOADSTREAM_KAFKA_PARTITIONS: found "0"; allowed is an integer from 1 to 10000' in text
    assert "LOADSTREAM_KAFKA_SECURITY_PROTOCOL" in text
    assert 'found "TLS"' in text
    assert "LOADSTREAM_KAFKA_NONSENSE: unknown setting" in text
