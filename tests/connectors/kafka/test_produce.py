"""JSON lines become records in their partitions, and refused lines are reported."""

import io
import json
import time
from collections.abc import Iterable
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, TopicPartition

from connectors.brokers.embedded import EmbeddedBroker
from connectors.kafka.client import BrokerUnavailable, Connection, connect
from connectors.kafka.extents import read_topic_extents
from connectors.kafka.produce import produce_lines, produce_messages
from schemas.base.limits import VALUE_BYTES_MAX
from schemas.messages.clock import ClockTick
from schemas.settings.connection import KafkaSettings
from schemas.topics.catalog import TOPIC_BY_NAME
from schemas.topics.codec import encode
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker
from tests.connectors.kafka.messages import NOW_MS, usage

USAGE = TOPIC_BY_NAME["node-usage"]


def _stream(lines: Iterable[bytes]) -> io.BytesIO:
    return io.BytesIO(b"\n".join(lines))


async def _records(settings: KafkaSettings, topic: str, count: int) -> list[Any]:
    """Return the first records of all partitions, read by another client."""
    places = [TopicPartition(topic, partition) for partition in range(4)]
    async with AIOKafkaConsumer(**settings.aiokafka_options()) as consumer:
        consumer.assign(places)
        await consumer.seek_to_beginning(*places)
        return [await consumer.getone() for _ in range(count)]


async def test_every_line_becomes_a_record_in_its_partition(broker: RunningBroker) -> None:
    samples = [usage(node=f"n{n}", sampled_at_ms=NOW_MS + n) for n in range(200)]
    # Like lines of another producer: another order of fields, blanks, an unknown field.
    lines = [
        json.dumps({"new_field": 1, **json.loads(encode(sample))}, indent=None).encode()
        for sample in samples
    ]
    summary = produce_lines(connect(broker.settings), USAGE, _stream(lines))
    assert (summary.lines, summary.produced, summary.rejected) == (200, 200, 0)
    assert summary.value_bytes == sum(map(len, lines))
    records = {record.key: record for record in await _records(broker.settings, "node-usage", 200)}
    for sample, line in zip(samples, lines, strict=True):
        record = records[f"blue/{sample.node}".encode()]
        assert record.value == line
        assert record.timestamp == sample.sampled_at_ms
        assert record.partition == partition_for(record.key, 4)
    assert len({record.partition for record in records.values()}) == 4


LINES = [
    encode(usage(node="n1")),
    b"",
    b"   \r",
    encode(usage(node="n2")).replace(b"1500", b"-1500"),
    encode(usage(node="n3")) + b"\r",
    b"hello",
    b'{"cluster": "blue"',
    encode(usage(node="n4")),
]


def test_a_refused_line_stops_the_run_after_earlier_lines_are_written(
    embedded: RunningBroker,
) -> None:
    refused: list[tuple[int, str]] = []
    summary = produce_lines(
        connect(embedded.settings),
        USAGE,
        _stream(LINES),
        on_rejection=lambda *rejection: refused.append(rejection),
    )
    assert (summary.lines, summary.produced, summary.rejected) == (2, 1, 1)
    assert summary.stopped
    [(line, reason)] = refused
    assert line == 4
    assert "usage.cpu is -1500" in reason


def test_refused_lines_can_be_skipped_and_all_are_reported_by_number(
    embedded: RunningBroker,
) -> None:
    refused: list[tuple[int, str]] = []
    summary = produce_lines(
        connect(embedded.settings), USAGE, _stream(LINES), on_error="skip",
        on_rejection=lambda *rejection: refused.append(rejection),
    )  # fmt: skip
    assert (summary.lines, summary.produced, summary.rejected) == (6, 3, 3)
    assert not summary.stopped
    assert [line for line, _ in refused] == [4, 6, 7]


def test_a_line_that_is_too_long_is_refused(embedded: RunningBroker) -> None:
    refused: list[tuple[int, str]] = []
    long = b"[" + b" " * (3 * VALUE_BYTES_MAX) + b"]"
    summary = produce_lines(
        connect(embedded.settings), USAGE, _stream([long, encode(usage())]), on_error="skip",
        on_rejection=lambda *rejection: refused.append(rejection),
    )  # fmt: skip
    assert [line for line, _ in refused] == [1]
    assert f"expected at most {VALUE_BYTES_MAX} bytes" in refused[0][1]
    assert summary.produced == 1


def test_messages_are_written_to_their_partitions_and_invalid_ones_are_refused(
    broker: RunningBroker,
) -> None:
    connection = connect(broker.settings)
    ticks = [ClockTick(partition=number, now_ms=NOW_MS) for number in (1, 9, 1, 3)]
    places, refused = produce_messages(connection, "clock", ticks)
    assert sorted(places) == [(1, 0), (1, 1), (3, 0)]
    assert refused == ["partition: found 9; expected 0 to 3"]


def test_records_that_the_broker_would_delete_at_once_are_counted(embedded: RunningBroker) -> None:
    connection = connect(embedded.settings)
    old = encode(usage(sampled_at_ms=1_500_000_000_000))
    assert produce_lines(connection, USAGE, _stream([old, old])).expired == 2
    policy = b'{"cluster": "blue", "document": "", "applied_at_ms": 1500000000000}'
    compacted = produce_lines(connection, TOPIC_BY_NAME["policies"], _stream([policy]))
    assert (compacted.produced, compacted.expired) == (1, 0)


@pytest.mark.broker
def test_the_loss_of_the_broker_is_reported_with_the_first_lost_line(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("connectors.kafka.producer.DELIVERY_S", 1.5)
    line = encode(usage())

    class Stream(io.BytesIO):
        """Stops the broker when a third of its lines are read and written."""

        def read1(self, size: int | None = -1, /) -> bytes:
            if self.tell() == 2000 * (len(line) + 1):
                broker.stop()
            return super().read1(1000 * (len(line) + 1))

    with EmbeddedBroker() as broker:
        connection = connect(broker.settings)
        with pytest.raises(BrokerUnavailable) as caught:
            produce_lines(connection, USAGE, Stream((line + b"\n") * 6000))
    text = str(caught.value)
    assert "records were not acknowledged; the first is line " in text
    assert connection.settings.bootstrap_servers in text


@pytest.mark.broker
def test_a_line_is_sent_before_the_end_of_the_stream(
    embedded: RunningBroker,
) -> None:
    connection = connect(embedded.settings)
    before = _count_records(connection)

    class Stream(io.BytesIO):
        """Gives a line, and the end only when the line is in the topic."""

        def read1(self, size: int | None = -1, /) -> bytes:
            until = time.monotonic() + 30
            while self.tell() and _count_records(connection) == before:
                assert time.monotonic() < until
                time.sleep(0.05)
            return super().read1(size)

    assert produce_lines(connection, USAGE, Stream(encode(usage()) + b"\n")).produced == 1


def _count_records(connection: Connection) -> int:
    return sum(extent.next_offset for extent in read_topic_extents(connection, USAGE.name))
