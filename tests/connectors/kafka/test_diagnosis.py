"""Causes of unusable brokers, with advice."""

import socket

import pytest

from connectors.kafka import diagnosis
from schemas.settings.connection import KafkaSettings


def test_a_broker_that_accepts_connections_and_does_not_answer_may_be_suspended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """For example a stopped process, or one that waits for a full disk."""
    monkeypatch.setattr(diagnosis, "_TIMEOUT_S", 1.0)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        found = diagnosis.diagnose(KafkaSettings.local(f"127.0.0.1:{silent.getsockname()[1]}"), [])
    assert found.cause == "no answer"
    assert found.remedy == (
        "Check in the broker's log whether it works. If it does, check "
        "LOADSTREAM_KAFKA_SECURITY_PROTOCOL and, on the broker, the addresses that it advertises."
    )
