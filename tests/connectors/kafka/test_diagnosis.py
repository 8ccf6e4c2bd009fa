"""Causes of unusable brokers, with advice."""

import socket

from connectors.kafka.diagnosis import diagnose
from schemas.settings.connection import KafkaSettings


def test_a_broker_that_accepts_connections_and_does_not_answer_may_be_suspended() -> None:
    """For example a stopped process, or one that waits for a full disk."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        diagnosis = diagnose(KafkaSettings.local(f"127.0.0.1:{silent.getsockname()[1]}"), [])
    assert diagnosis.cause == "no answer"
    assert diagnosis.remedy == (
        "Check in the broker's log whether it works. If it does, check "
        "LOADSTREAM_KAFKA_SECURITY_PROTOCOL and, on the broker, the addresses that it advertises."
    )
