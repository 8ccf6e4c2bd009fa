"""The wire, on the embedded broker."""

import time
from typing import Any

import pytest
from confluent_kafka import Producer

from connectors.kafka.wire import Wire, WireError
from schemas.messages.clock import ClockTick
from schemas.messages.lists import ListBegin
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker

NOW_MS = 1_772_409_600_000


def _received(wire: Wire, count: int) -> list[tuple[Any, int]]:
    found: list[tuple[Any, int]] = []
    deadline = time.monotonic() + 60
    while len(found) < count and time.monotonic() < deadline:
        found += wire.receive(0.1)
    return found


def test_what_is_sent_is_received_with_its_offset(embedded: RunningBroker) -> None:
    with Wire(embedded.settings, ("node-state", "clock")) as wire:
        sent: list[Any] = [ListBegin(cluster="c", list_id=str(number)) for number in range(5)]
        for message in sent:
            wire.send("node-state", message)
        wire.flush()
        assert _received(wire, 5) == list(zip(sent, range(5), strict=True))
        ticks = [ClockTick(partition=partition, now_ms=NOW_MS) for partition in range(4)]
        for tick in ticks:
            wire.send("clock", tick)
        assert {message.partition for message, offset in _received(wire, 4) if offset == 0} == set(
            range(4)
        )


def test_nothing_received_takes_no_longer_than_was_asked_for(embedded: RunningBroker) -> None:
    with Wire(embedded.settings, ("clock",)) as wire:
        assert list(wire.receive(0.0)) == []
        assert list(wire.receive(0.05)) == []


def test_a_record_that_cannot_be_read_is_an_error(embedded: RunningBroker) -> None:
    producer = Producer({**embedded.settings.librdkafka_options(), "log_level": 0})
    producer.produce("clock", b"nonsense", key=b"1", partition=1)
    producer.flush(60)
    with (
        Wire(embedded.settings, ("clock",)) as wire,
        pytest.raises(WireError, match="clock partition 1 offset 0: the record is no JSON"),
    ):
        _received(wire, 1)


def test_records_go_where_their_key_belongs(embedded: RunningBroker) -> None:
    with Wire(embedded.settings, ("node-state",)) as wire:
        for number in range(8):
            wire.send("node-state", ListBegin(cluster=f"c{number}", list_id="l"))
        found = _received(wire, 8)
    offsets = sorted(offset for _, offset in found)
    places = [partition_for(f"c{number}".encode(), 4) for number in range(8)]
    assert offsets == sorted(places[:index].count(place) for index, place in enumerate(places))
