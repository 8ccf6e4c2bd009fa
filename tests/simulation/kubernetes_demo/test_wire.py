"""Messages out and in, through an embedded broker."""

import time
from typing import Any

import pytest
from confluent_kafka import Producer

from schemas.messages.lists import ListBegin
from simulation.kubernetes_demo.wire import Wire, WireError
from tests.conftest import RunningBroker


def _received(wire: Wire, count: int) -> list[Any]:
    found: list[Any] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        found += wire.receive(0.1)
    return found


def test_what_is_sent_is_received(embedded: RunningBroker) -> None:
    with Wire(embedded.settings, ("node-state", "clock")) as wire:
        sent = [ListBegin(cluster="c", list_id=str(number)) for number in range(5)]
        for message in sent:
            wire.send("node-state", message)
        assert _received(wire, 5) == sent


def test_a_record_that_cannot_be_read_is_an_error(embedded: RunningBroker) -> None:
    producer = Producer({**embedded.settings.librdkafka_options(), "log_level": 0})
    producer.produce("clock", b"nonsense", key=b"1", partition=1)
    producer.flush(60)
    with (
        Wire(embedded.settings, ("clock",)) as wire,
        pytest.raises(WireError, match="clock partition 1 offset 0: the record is not JSON"),
    ):
        _received(wire, 1)
