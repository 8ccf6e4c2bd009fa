"""Writes the records of a stage to Kafka.

Faust's producer is slow, and does not report when a batch is durable. A call of `Publisher` returns when
the brokers have acknowledged all records of the call. Records of one partition are passed to the producer
together, because a call per record costs more than a decision. Records keep their order, even after
retries, and are written once. If a record cannot be written, the worker must stop, because its state in
memory is not durable.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from itertools import islice
from typing import Any

from connectors.kafka.producer import connect_producer
from connectors.kafka.reconnect import ask_until_answered
from schemas.settings.connection import KafkaSettings
from schemas.topics.partitions import partition_for
from streams.stage.records import OutputRecord, RowChange

#: Most bytes in one batch of the producer; a larger record is a separate batch.
_BATCH_BYTES = 512 * 1024

#: Topic, key, value, partition (None: chosen by the key), timestamp (None: now).
_Record = tuple[str, bytes, bytes | None, int | None, int | None]

#: Possible reasons of `LostOwnership`.
LOST_OWNERSHIP_REASONS = (
    "it sent no heartbeat for longer than the session timeout, a worker with another LOADSTREAM_WORKER_STAGES (and "
    "so with another consumer group) runs as well, or the partition was reset"
)


class LostOwnership(RuntimeError):
    """Another worker owns the partition."""


class NotAcknowledged(RuntimeError):
    """A broker has not accepted a record."""


class Publisher:
    """An idempotent producer whose calls wait for acknowledgements."""

    def __init__(self, settings: KafkaSettings, **options: Any) -> None:
        """`options` are additional options of aiokafka's producer."""
        self._settings = settings
        self._options = options
        self._producer: Any = None
        self._starting = asyncio.Lock()
        self._partition_counts: dict[str, int] = {}
        self.written_bytes: Counter[str] = Counter()
        """Bytes of keys and values by topic."""

    async def start(self) -> None:
        """Connect, unless connected."""
        async with self._starting:
            if self._producer is None:
                self._producer = await self._connect()

    async def _connect(self) -> Any:
        options = {"linger_ms": 0, "max_batch_size": _BATCH_BYTES, **self._options}
        return await connect_producer(self._settings, **options)

    async def stop(self) -> None:
        """Disconnect after pending writes."""
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop()

    async def publish(self, records: Iterable[OutputRecord]) -> list[int]:
        """Write records and wait for acknowledgements; return their offsets, -1 if unknown.

        Raises:
            NotAcknowledged: a record was not written.
        """
        return await self._deliver(
            (record.topic, record.key.encode(), record.value, record.partition, record.timestamp_ms)
            for record in records
        )

    async def write_rows(
        self, partition: int, changes: Mapping[str, Collection[RowChange]]
    ) -> dict[str, list[int]]:
        """Write row changes to changelogs, each in order; return offsets and raise as `publish` does."""
        offsets = iter(
            await self._deliver(
                (topic, change.key.encode(), change.value, partition, None)
                for topic, topic_changes in changes.items()
                for change in topic_changes
            )
        )
        return {
            topic: list(islice(offsets, len(topic_changes)))
            for topic, topic_changes in changes.items()
        }

    async def append(self, topic: str, partition: int, values: Iterable[bytes]) -> int:
        """Write records with the partition as key, in order; return the offset of the last record."""
        key = str(partition).encode()
        offsets = await self._deliver((topic, key, value, partition, None) for value in values)
        last_offset = max(offsets)
        if last_offset < 0:
            raise NotAcknowledged(f"the broker did not report the offsets of records in {topic}")
        return last_offset

    async def _deliver(self, records: Iterable[_Record]) -> list[int]:
        by_partition: dict[tuple[str, int], list[_Record]] = defaultdict(list)
        numbers: dict[tuple[str, int], list[int]] = defaultdict(list)
        count = 0
        for record in records:
            topic, key, value, partition, _ = record
            self.written_bytes[topic] += len(key) + len(value or b"")
            if partition is None:
                partition = partition_for(key, await self._count_partitions(topic))
            by_partition[topic, partition].append(record)
            numbers[topic, partition].append(count)
            count += 1
        answers = await asyncio.gather(
            *(self._send(*target, of_partition) for target, of_partition in by_partition.items()),
            return_exceptions=True,
        )
        offsets = [-1] * count
        for (topic, partition), answer in zip(by_partition, answers, strict=True):
            if isinstance(answer, BaseException):
                raise NotAcknowledged(
                    f"{len(by_partition[topic, partition])} records to {topic}, partition {partition}, were "
                    f"not all acknowledged: {type(answer).__name__}: {answer}"
                ) from answer
            for number, offset in zip(numbers[topic, partition], answer, strict=True):
                offsets[number] = offset
        return offsets

    async def _send(self, topic: str, partition: int, records: Sequence[_Record]) -> list[int]:
        """Send the records of one partition in as few batches as possible; return their offsets."""
        sent: list[tuple[int, Any]] = []
        position = 0
        try:
            while position < len(records):
                first, batch = position, self._producer.create_batch()
                while position < len(records):
                    _, key, value, _, timestamp_ms = records[position]
                    if batch.append(key=key, value=value, timestamp=timestamp_ms) is None:
                        break
                    position += 1
                future = await self._send_batch(batch, topic, partition)
                sent.append((position - first, future))
        finally:
            # Wait for the sent batches, even if a later batch was not accepted.
            answers = await asyncio.gather(*(future for _, future in sent), return_exceptions=True)
        offsets: list[int] = []
        for (count, _), answer in zip(sent, answers, strict=True):
            if isinstance(answer, BaseException):
                raise answer
            unknown = answer.offset < 0
            offsets += [-1] * count if unknown else range(answer.offset, answer.offset + count)
        return offsets

    async def _send_batch(self, batch: Any, topic: str, partition: int) -> Any:
        """Pass a batch to the producer, and return its future; wait while no broker answers."""
        return await ask_until_answered(
            # An error means that the producer has not accepted the batch.
            lambda: self._producer.send_batch(batch, topic, partition=partition),
            f"writing to {topic}, partition {partition}",
        )

    async def _count_partitions(self, topic: str) -> int:
        count = self._partition_counts.get(topic)
        if count is None:
            partitions = await ask_until_answered(
                lambda: self._producer.partitions_for(topic), f"finding partitions of {topic}"
            )
            count = self._partition_counts[topic] = len(partitions)
        return count
