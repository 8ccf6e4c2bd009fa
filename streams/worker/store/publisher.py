"""Writes of a stage to Kafka, by an idempotent producer of our own.

Faust's producer costs as much per message as Faust's consumer, and does not say when a batch is
safe. Here a call returns when the brokers have acknowledged everything that it was given. All
records for one partition are handed to the producer together, since one call per record costs more
than the decision in it. Records for one partition keep their order, even with retries; one producer
writes nothing twice. A record that cannot be written is an error: the caller has state in memory
that is not durable, and must not go on.
"""

import asyncio
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from connectors.kafka.producer import connect_producer
from connectors.kafka.reconnect import ask_until_answered
from schemas.settings.connection import KafkaSettings
from schemas.topics.partitions import partition_for
from streams.stage.records import OutputRecord, RowChange

#: Most bytes that travel in one batch to one partition; a larger record makes a batch of its own.
_BATCH_BYTES = 512 * 1024


#: Topic, key, value, partition or none where the key says it, timestamp or none for now.
_Record = tuple[str, bytes, bytes | None, int | None, int | None]


#: Why a partition has another owner, of which the worker knows nothing.
UNKNOWN_OWNER = (
    "brokers did not hear from it for longer than the session timeout, a worker with another "
    "LOADSTREAM_WORKER_STAGES, and so of another group, runs beside it, or the partition was reset "
    "meanwhile"
)


class LostOwnership(RuntimeError):
    """Another writer has opened the partition's journal: what this one appends does not count."""


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
        self._counts: dict[str, int] = {}
        self._separate: list[Publisher] = []
        self.written_bytes: Counter[str] = Counter()
        """Bytes of keys and values that were given to the brokers, by topic."""

    async def start(self) -> None:
        """Connect; does nothing where that is done already."""
        async with self._starting:
            if self._producer is None:
                self._producer = await self._started()
            for each in self._separate:
                await each.start()

    @property
    def running(self) -> bool:
        """Started, and not stopped since."""
        return self._producer is not None

    def separate(self, **options: Any) -> "Publisher":
        """Another one, which this one's writes do not wait for; it starts and stops with this one.

        `options` replace those of this one.
        """
        other = Publisher(self._settings, **{**self._options, **options})
        other.written_bytes = self.written_bytes
        self._separate.append(other)
        return other

    async def _started(self) -> Any:
        options = {"linger_ms": 0, "max_batch_size": _BATCH_BYTES, **self._options}
        return await connect_producer(self._settings, **options)

    async def stop(self) -> None:
        """Disconnect, after what is on its way has arrived or failed."""
        for each in self._separate:
            await each.stop()
        producer, self._producer = self._producer, None
        if producer is not None:
            await producer.stop()

    async def publish(self, records: Iterable[OutputRecord]) -> list[int]:
        """Write records; returns when all are acknowledged, raises Undelivered if one is not.

        Answers with the offset of each, -1 where the broker did not say.
        """
        return await self._deliver(
            (each.topic, each.key.encode(), each.value, each.partition, each.timestamp_ms)
            for each in records
        )

    async def write_rows(
        self, topic: str, partition: int, changes: Iterable[RowChange]
    ) -> list[int]:
        """Write row changes to a changelog, in their order; as `publish` otherwise."""
        return await self._deliver(
            (topic, each.key.encode(), each.value, partition, None) for each in changes
        )

    async def append(self, topic: str, partition: int, values: Iterable[bytes]) -> int:
        """Write records keyed by their partition, in order; offset of the last one."""
        key = str(partition).encode()
        offsets = await self._deliver((topic, key, value, partition, None) for value in values)
        last = max(offsets)
        if last < 0:
            raise Undelivered(f"the broker did not say at which offset of {topic} the records are")
        return last

    async def _deliver(self, records: Iterable[_Record]) -> list[int]:
        """Offsets of the records, in their order; -1 where the broker did not say."""
        by_place: dict[tuple[str, int], list[tuple[int, _Record]]] = defaultdict(list)
        count = 0
        for record in records:
            topic, key, value, partition, _ = record
            self.written_bytes[topic] += len(key) + len(value or b"")
            if partition is None:
                partition = partition_for(key, await self._partitions(topic))
            by_place[topic, partition].append((count, record))
            count += 1
        offsets = [-1] * count
        outcomes = await asyncio.gather(
            *(self._to(place, numbered, offsets) for place, numbered in by_place.items()),
            return_exceptions=True,
        )
        for (topic, partition), outcome in zip(by_place, outcomes, strict=True):
            if isinstance(outcome, AssertionError | asyncio.CancelledError):
                raise outcome
            if outcome is not None:
                raise Undelivered(
                    f"{len(by_place[topic, partition])} records to {topic}, partition {partition}, were "
                    f"not all acknowledged: {type(outcome).__name__}: {outcome}"
                ) from outcome
        return offsets

    async def _to(
        self, place: tuple[str, int], numbered: list[tuple[int, _Record]], offsets: list[int]
    ) -> None:
        """Hand records of one partition over in as few batches as possible; note their offsets."""
        topic, partition = place
        sent: list[tuple[list[int], Any]] = []
        left = iter(numbered)
        following = next(left, None)
        try:
            while following is not None:
                builder = self._producer.create_batch()
                numbers = []
                while following is not None:
                    number, (_, key, value, _, timestamp_ms) = following
                    if builder.append(key=key, value=value, timestamp=timestamp_ms) is None:
                        break
                    numbers.append(number)
                    following = next(left, None)
                sent.append((numbers, await self._given(builder, topic, partition)))
        finally:
            # Also when a later batch was not even accepted: what is on its way is waited for.
            answers = await asyncio.gather(*(each for _, each in sent), return_exceptions=True)
        for (numbers, _), answer in zip(sent, answers, strict=True):
            if isinstance(answer, BaseException):
                raise answer
            if answer.offset >= 0:
                for index, number in enumerate(numbers):
                    offsets[number] = answer.offset + index

    async def _given(self, batch: Any, topic: str, partition: int) -> Any:
        """Hand a batch over, after those before it; waits while brokers are away. Answers with its
        future."""
        return await ask_until_answered(
            # An error says that it was not taken in.
            lambda: self._producer.send_batch(batch, topic, partition=partition),
            f"writing to {topic}, partition {partition}",
        )

    async def _partitions(self, topic: str) -> int:
        """How many partitions a topic has."""
        count = self._counts.get(topic)
        if count is None:
            found = await ask_until_answered(
                lambda: self._producer.partitions_for(topic), f"finding partitions of {topic}"
            )
            count = self._counts[topic] = len(found)
        return count
