"""Writes of a stage to Kafka, by an idempotent producer of our own.

Faust's producer costs as much a message as Faust's consumer and tells nobody when a batch is safe. Here
a call returns when the brokers have acknowledged everything that it was given. Records to one partition
keep their order, also through retries; nothing is written twice by one producer. A record that cannot be
written is an error: whoever called has state in memory that is not durable, and must not go on.
"""

import asyncio
from collections import Counter
from collections.abc import Iterable
from typing import Any

from schemas.connection import BATCH_BYTES_MAX, KafkaSettings
from streams.records import OutputRecord, RowChange

#: Most bytes that travel in one batch to one partition; a larger record makes a batch of its own.
_BATCH_BYTES = 512 * 1024


class Undelivered(RuntimeError):
    """The brokers did not take a record; what was computed from the input is not durable."""


class Publisher:
    """An idempotent producer that waits for acknowledgements batch by batch."""

    def __init__(self, settings: KafkaSettings, **options: Any) -> None:
        """`options` replace those that aiokafka's producer is made with."""
        self._settings = settings
        self._options = options
        self._producer: Any = None
        self._starting = asyncio.Lock()
        self.written_bytes: Counter[str] = Counter()
        """Bytes of keys and values that were given to the brokers, by topic."""

    async def start(self) -> None:
        """Connect; does nothing where that is done already."""
        async with self._starting:
            if self._producer is None:
                self._producer = await self._started()

    async def _started(self) -> Any:
        from aiokafka import AIOKafkaProducer

        options = {
            **self._settings.aiokafka_options(),
            "enable_idempotence": True,
            "linger_ms": 0,
            "max_batch_size": _BATCH_BYTES,
            "max_request_size": BATCH_BYTES_MAX,
            **self._options,
        }
        producer = AIOKafkaProducer(**options)
        await producer.start()
        return producer

    async def stop(self) -> None:
        """Disconnect, after what is on its way has arrived or failed."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop()

    async def publish(self, records: Iterable[OutputRecord]) -> list[int]:
        """Write records; returns when all are acknowledged, raises Undelivered if one is not.

        Answers with the offset of each, -1 where the broker did not say.
        """
        answers = await self._deliver(
            (each.topic, each.key.encode(), each.value, each.partition, each.timestamp_ms)
            for each in records
        )
        return [int(answer.offset) for answer in answers]

    async def write_rows(self, topic: str, partition: int, changes: Iterable[RowChange]) -> None:
        """Write row changes to a changelog, in their order; as `publish` otherwise."""
        await self._deliver(
            (topic, each.key.encode(), each.value, partition, None) for each in changes
        )

    async def append(self, topic: str, partition: int, values: Iterable[bytes]) -> int:
        """Write records keyed by their partition, in order; offset of the last one."""
        key = str(partition).encode()
        answers = await self._deliver((topic, key, value, partition, None) for value in values)
        last = max(int(answer.offset) for answer in answers)
        if last < 0:
            raise Undelivered(f"the broker did not say at which offset of {topic} the records are")
        return last

    async def _deliver(
        self, records: Iterable[tuple[str, bytes, bytes | None, int | None, int | None]]
    ) -> list[Any]:
        """What the brokers answered, record by record."""
        futures = []
        topics = set()
        try:
            for topic, key, value, partition, timestamp_ms in records:
                topics.add(topic)
                self.written_bytes[topic] += len(key) + len(value or b"")
                futures.append(
                    await self._producer.send(
                        topic,
                        key=key,
                        value=value,
                        partition=partition,
                        timestamp_ms=timestamp_ms,
                    )
                )
        finally:
            # Also when a later record was not even accepted: what is on its way is waited for.
            answers = await asyncio.gather(*futures, return_exceptions=True)
        failures = [answer for answer in answers if isinstance(answer, BaseException)]
        if failures:
            raise Undelivered(
                f"{len(failures)} of {len(answers)} records to {', '.join(sorted(topics))} were not "
                f"acknowledged: {type(failures[0]).__name__}: {failures[0]}"
            ) from failures[0]
        return answers
