"""Reading a range of a partition in pieces."""

import asyncio
from contextlib import aclosing

import pytest
from aiokafka import AIOKafkaProducer
from confluent_kafka import Producer

from connectors.kafka import partition_records
from connectors.kafka.partition_records import ReadTimeout, read_pieces, read_range
from schemas.settings.connection import KafkaSettings
from tests.conftest import RunningBroker

_TOPIC = "node-state"


async def _write(kafka: KafkaSettings, count: int) -> None:
    async with AIOKafkaProducer(linger_ms=5, **kafka.aiokafka_options()) as producer:
        sent = [await producer.send(_TOPIC, b"%d" % number, partition=0) for number in range(count)]
        await asyncio.gather(*sent)


async def test_a_long_range_is_read_in_pieces_of_bounded_size(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_records, "PIECE_RECORDS_MAX", 100)
    kafka = embedded.settings
    await _write(kafka, 1_050)
    pieces = [piece async for piece in read_pieces(kafka, _TOPIC, 0, 20, 1_040)]
    assert max(map(len, pieces)) <= 100
    assert all(pieces)
    assert [entry.offset for piece in pieces for entry in piece] == list(range(20, 1_040))
    assert pieces[0][0].value == b"20"
    assert await read_range(kafka, _TOPIC, 0, 20, 1_040) == [e for piece in pieces for e in piece]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
async def test_records_with_any_compression_are_read(embedded: RunningBroker, codec: str) -> None:
    """A record that cannot be decompressed would end every worker repeatedly."""
    options = {**embedded.settings.librdkafka_options(), "compression.type": codec, "linger.ms": 50}
    producer = Producer({**options, "log_level": 0})
    values = [b"%d" % number * 100 for number in range(20)]
    for value in values:
        producer.produce(_TOPIC, value, partition=0)
    assert producer.flush(60) == 0
    entries = await read_range(embedded.settings, _TOPIC, 0, 0, len(values))
    assert [entry.value for entry in entries] == values


async def test_deleted_records_are_reported(
    embedded: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    kafka = embedded.settings
    async with AIOKafkaProducer(**kafka.aiokafka_options()) as producer:
        for _ in range(20):
            last = await producer.send_and_wait(_TOPIC, b"x" * 500_000, partition=0)
    end = last.offset + 1
    records = await read_range(kafka, _TOPIC, 0, 1, end)
    assert 1 < records[0].offset < end
    gone = f"the broker has deleted the records 1 to {records[0].offset - 1}"
    assert [entry.getMessage() for entry in caplog.records if gone in entry.getMessage()]
    caplog.clear()
    # A reader that begins at the start of a topic has missed nothing.
    assert await read_range(kafka, _TOPIC, 0, 0, end) == records
    assert not caplog.records


async def test_a_range_that_does_not_arrive_is_an_error(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    await _write(embedded.settings, 3)
    async with aclosing(read_pieces(embedded.settings, _TOPIC, 0, 0, 9)) as pieces:
        while (await anext(pieces))[-1].offset < 2:
            pass
        monkeypatch.setattr(partition_records, "READ_TIMEOUT_S", 0.5)
        with pytest.raises(ReadTimeout, match="no record after offset 3"):
            await anext(pieces)
