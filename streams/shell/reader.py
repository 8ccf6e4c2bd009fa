"""Reads a stretch of one partition, outside of any consumer group.

For what Faust has no part in: the tail of the journal, and records that should have been delivered and
were not. Offsets that hold nothing (compacted away, or older than what is kept) are passed over.
"""

import asyncio
from dataclasses import dataclass
from typing import Any

from schemas.connection import KafkaSettings

#: Longest time without a record before reading is given up.
PATIENCE_S = 60.0


class Unread(RuntimeError):
    """A stretch of a partition could not be read to its end."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One record as it stands in a partition."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


async def read_range(
    settings: KafkaSettings, topic: str, partition: int, first: int, end: int
) -> list[Entry]:
    """Records with offsets from `first` up to and without `end`, in order.

    Raises:
        Unread: the broker gave nothing for too long.
    """
    if first >= end:
        return []
    from aiokafka import AIOKafkaConsumer, TopicPartition

    place = TopicPartition(topic, partition)
    consumer: Any = AIOKafkaConsumer(
        enable_auto_commit=False, fetch_max_wait_ms=100, **settings.aiokafka_options()
    )
    await consumer.start()
    try:
        consumer.assign([place])
        start = (await consumer.beginning_offsets([place]))[place]
        consumer.seek(place, max(first, start))
        return await asyncio.wait_for(_until(consumer, place, end), PATIENCE_S)
    except TimeoutError:
        at = await consumer.position(place)
        raise Unread(
            f"topic {topic}, partition {partition}: nothing came after offset {at} for {PATIENCE_S:.0f} s; "
            f"needed are the records up to {end - 1}. Look whether the partition has a leader."
        ) from None
    finally:
        await consumer.stop()


async def _until(consumer: Any, place: Any, end: int) -> list[Entry]:
    entries: list[Entry] = []
    while await consumer.position(place) < end:
        for record in (await consumer.getmany(place, timeout_ms=200)).get(place, ()):
            if record.offset < end:
                entries.append(Entry(record.offset, record.key, record.value, record.timestamp))
    return entries
