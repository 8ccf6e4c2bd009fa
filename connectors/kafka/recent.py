"""The records of one partition since a moment, up to its end or for ever; read without blocking.

There is no consumer group: what is read is kept nowhere.

The embedded broker does not know times. There the newest record says whether there may be any that
is recent, and then all are read.
"""

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from schemas.connection import KafkaSettings
from schemas.limits import BATCH_BYTES_MAX

_POLL_MS = 500


async def first_since(kafka: KafkaSettings, topic: str, partition: int, since_ms: int) -> int:
    """Offset of the first record of `since_ms` or later; the partition's end if there is none.

    Raises aiokafka's KafkaError if a broker does not answer.
    """
    async with _consumer(kafka, topic, partition) as (consumer, place):
        return await _first(consumer, place, since_ms)


async def recent(
    kafka: KafkaSettings, topic: str, partition: int, since_ms: int
) -> AsyncIterator[Any]:
    """aiokafka's records from the first one that is of `since_ms` or later.

    Raises aiokafka's KafkaError if a broker does not answer.
    """
    async with _consumer(kafka, topic, partition) as (consumer, place):
        end = (await consumer.end_offsets([place]))[place]
        next_offset = await _first(consumer, place, since_ms)
        consumer.seek(place, next_offset)
        while next_offset < end:
            for record in (await consumer.getmany(place, timeout_ms=_POLL_MS)).get(place, ()):
                if record.offset < end:
                    yield record
            next_offset = await consumer.position(place)


async def newest(kafka: KafkaSettings, topic: str, partition: int) -> Any | None:
    """aiokafka's newest record; none: there is none. Raises aiokafka's KafkaError."""
    async with _consumer(kafka, topic, partition) as (consumer, place):
        first = (await consumer.beginning_offsets([place]))[place]
        end = (await consumer.end_offsets([place]))[place]
        consumer.seek(place, max(first, end - 1))
        found: Sequence[Any] = ()
        while await consumer.position(place) < end:
            found = (await consumer.getmany(place, timeout_ms=_POLL_MS)).get(place, ())
        return found[-1] if found else None


async def end_of(kafka: KafkaSettings, topic: str, partition: int) -> int:
    """Offset of the next record that comes. Raises aiokafka's KafkaError."""
    async with _consumer(kafka, topic, partition) as (consumer, place):
        return int((await consumer.end_offsets([place]))[place])


async def follow(
    kafka: KafkaSettings, topic: str, partition: int, offset: int
) -> AsyncIterator[Any]:
    """aiokafka's records from an offset on, for ever. Raises aiokafka's KafkaError."""
    async with _consumer(kafka, topic, partition) as (consumer, place):
        consumer.seek(place, offset)
        while True:
            for record in (await consumer.getmany(place, timeout_ms=_POLL_MS)).get(place, ()):
                yield record


async def _first(consumer: Any, place: Any, since_ms: int) -> int:
    first = (await consumer.beginning_offsets([place]))[place]
    end = (await consumer.end_offsets([place]))[place]
    found = (await consumer.offsets_for_times({place: max(0, since_ms)}))[place]
    if found is not None and found.offset >= 0:
        return int(found.offset)
    consumer.seek(place, max(first, end - 1))
    if first < end:
        for record in (await consumer.getmany(place, timeout_ms=_POLL_MS)).get(place, ()):
            if record.timestamp >= since_ms:
                return int(first)
    return int(end)


@asynccontextmanager
async def _consumer(
    kafka: KafkaSettings, topic: str, partition: int
) -> AsyncIterator[tuple[Any, Any]]:
    place = TopicPartition(topic, partition)
    consumer: Any = AIOKafkaConsumer(
        **kafka.aiokafka_options(),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=BATCH_BYTES_MAX,
    )
    try:
        await consumer.start()
        consumer.assign([place])
        yield consumer, place
    finally:
        await consumer.stop()
