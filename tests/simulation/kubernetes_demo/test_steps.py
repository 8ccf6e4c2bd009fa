"""Messages are received through an embedded broker."""

import time
from typing import Any

import pytest
from confluent_kafka import Producer

from connectors.kafka.client import connect
from connectors.kafka.produce import produce_messages
from schemas.messages.lists import ListBegin
from simulation.kubernetes_demo.steps import RecordLost, TopicClient
from tests.conftest import RunningBroker


def _received(client: TopicClient, count: int) -> list[Any]:
    messages: list[Any] = []
    deadline = time.monotonic() + 60
    while len(messages) < count and time.monotonic() < deadline:
        messages += client.receive(0.1)
    return messages


def test_sent_messages_are_received(embedded: RunningBroker) -> None:
    connection = connect(embedded.settings)
    with TopicClient(connection, ("node-state", "clock")) as client:
        sent = [ListBegin(cluster="c", list_id=str(number)) for number in range(5)]
        produce_messages(connection, "node-state", sent)
        assert _received(client, 5) == sent


def test_a_record_that_cannot_be_read_is_an_error(embedded: RunningBroker) -> None:
    producer = Producer({**embedded.settings.librdkafka_options(), "log_level": 0})
    producer.produce("clock", b"nonsense", key=b"1", partition=1)
    producer.flush(60)
    with (
        TopicClient(connect(embedded.settings), ("clock",)) as client,
        pytest.raises(RecordLost, match="clock partition 1 offset 0: the record is not JSON"),
    ):
        _received(client, 1)
