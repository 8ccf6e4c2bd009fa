"""The records of one partition since a moment, up to its end now; read without blocking."""

from collections.abc import AsyncIterator
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition

from schemas.connection import KafkaSettings
from schemas.limits import BATCH_BYTES_MAX

_POLL_MS = 500


async def recent(
    kafka: KafkaSettings, topic: str, partition: int, since_ms: int
) -> AsyncIterator[Any]:
    """aiokafka's records from the first one that is of `since_ms` or later.

    Raises aiokafka's KafkaError if a broker does not answer.
    """
    place = TopicPartition(topic, partition)
    consumer: Any = AIOKafkaConsumer(
        **kafka.aiokafka_options(),
        enable_auto_commit=False,
        auto_offset_reset="earliest",
        max_partition_fetch_bytes=BATCH_BYTES_MAX,
    )
    await consumer.start()
    try:
        consumer.assign([place])
        end = (await consumer.end_offsets([place]))[place]
        found = (await consumer.offsets_for_times({place: max(0, since_ms)}))[place]
        if found is None:
            return
        consumer.seek(place, found.offset)
        while await consumer.position(place) < end:
            for record in (await consumer.getmany(place, timeout_ms=_POLL_MS)).get(place, ()):
                if record.offset < end:
                    yield record
    finally:
        await consumer.stop()
