"""The reader: records of partitions from given offsets on.

There is no consumer group, so no committed offset changes, and several readers can read the same
partition. `PartitionReader` is asynchronous. `Reader` blocks, for commands, and raises an error when no
broker answers.

Offsets without a record are normal: transaction markers, and records removed by compaction. Records
deleted before they were read are reported as one `Gap`. Records of aborted transactions are read,
because workers read them, too. Records of different partitions have no order.
"""

import asyncio
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, OffsetOutOfRangeError

from connectors.kafka.client import BrokerUnavailable, Connection, wait_for
from connectors.kafka.reconnect import start_client
from schemas.base.limits import BATCH_BYTES_MAX
from schemas.settings.connection import KafkaSettings

#: `timestamp_ms` of a record without a timestamp.
NO_TIME = -1

#: Topic and number of a partition.
Partition = tuple[str, int]

#: Time of a broker's last answer in milliseconds, and the partition's end in that answer.
_Answer = tuple[int | None, int | None]

#: How long `Reader.more` waits for the first record, in seconds.
_WAIT_S = 0.25
#: Most records per call of `poll`.
RECORDS_MAX = 2_000


class Record(NamedTuple):
    """One record of a partition."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """`NO_TIME` without a timestamp."""
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Gap:
    """Records that were deleted before they could be read."""

    topic: str
    partition: int
    first_offset: int
    """Offset of the first missing record."""
    next_offset: int
    """Offset of the first existing record after the gap."""

    def __str__(self) -> str:
        return (
            f"{self.topic} partition {self.partition}: the broker has deleted the records "
            f"{self.first_offset} to {self.next_offset - 1}"
        )


class TopicReplaced(RuntimeError):
    """A partition ends before the expected offset; the message has both offsets."""


class PartitionReader:
    """Reads partitions forward; call `start` first and `stop` at the end.

    All methods raise KafkaError of aiokafka.
    """

    def __init__(
        self,
        settings: KafkaSettings,
        starts: Mapping[Partition, int],
        *,
        fetch_wait_ms: int = 100,
        fetch_bytes_max: int = BATCH_BYTES_MAX,
        records_max: int = RECORDS_MAX,
    ) -> None:
        """Args:
        settings: how to reach Kafka.
        starts: offset of the first record to read, by partition.
        fetch_wait_ms: how long a broker may delay an answer without records; the embedded broker
            always waits so long.
        fetch_bytes_max: most bytes of a partition per fetch; a larger record is sent alone.
        records_max: most records that `poll` returns.
        """
        self._settings = settings
        self._next = dict(starts)
        self._fetch_wait_ms = fetch_wait_ms
        self._fetch_bytes_max = fetch_bytes_max
        self._records_max = records_max
        self._consumer: Any = None
        self._topic_partitions: dict[Partition, Any] = {}
        self._seen_ms: dict[Partition, int | None] = {}
        self._ended: dict[Partition, int] = {}
        self._answers: dict[Partition, _Answer] = {}
        self._answered_s = time.monotonic()

    async def start(self) -> None:
        self._consumer = AIOKafkaConsumer(
            **self._settings.aiokafka_options(),
            enable_auto_commit=False,
            auto_offset_reset="none",  # so that deleted records are noticed
            fetch_max_wait_ms=self._fetch_wait_ms,
            max_partition_fetch_bytes=self._fetch_bytes_max,
        )
        await self._consumer.start()
        self._answered_s = time.monotonic()
        if self._next:
            self.assign(self._next)

    def assign(self, starts: Mapping[Partition, int]) -> None:
        """Read these partitions from these offsets on."""
        self._next = dict(starts)
        self._topic_partitions = {partition: TopicPartition(*partition) for partition in starts}
        self._consumer.assign(list(self._topic_partitions.values()))
        for partition, offset in starts.items():
            self._consumer.seek(self._topic_partitions[partition], offset)
        self._seen_ms = dict.fromkeys(starts)
        self._ended = {}

    async def stop(self) -> None:
        if self._consumer is None:
            return
        try:
            await self._consumer.stop()
        except asyncio.CancelledError:
            # aiokafka raises it while a connection is being opened, and leaves other connections open.
            await self._consumer._client.close()  # noqa: SLF001 - no other way
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]  # in a task always
                raise

    @property
    def partitions(self) -> frozenset[Partition]:
        return frozenset(self._next)

    def position(self, partition: Partition) -> int:
        """Return the offset after the last one that was read or skipped."""
        return self._next[partition]

    def has_passed(self, partition: Partition, end: int) -> bool:
        """Tell whether all records before the offset `end` have been read."""
        return self._next[partition] >= end or self._ended.get(partition, -1) >= end

    def has_ended(self, partition: Partition) -> bool:
        """Tell whether the broker has no records after the position."""
        return partition in self._ended

    async def extent(self, partition: Partition) -> tuple[int, int]:
        """Return first and next offset of a partition."""
        return (await self.extents([partition]))[partition]

    async def extents(self, partitions: Collection[Partition]) -> dict[Partition, tuple[int, int]]:
        """Return first and next offset of each partition."""
        if not partitions:
            await self._consumer.topics()  # to find out whether a broker answers
            return {}
        topic_partitions = [TopicPartition(*partition) for partition in partitions]
        first = await self._consumer.beginning_offsets(topic_partitions)
        ends = await self._consumer.end_offsets(topic_partitions)
        return {(p.topic, p.partition): (first[p], ends[p]) for p in topic_partitions}

    async def offset_since(self, partition: Partition, since_ms: int) -> int | None:
        """Return the offset of the first record of `since_ms` or later; None: no known offset."""
        topic_partition = TopicPartition(*partition)
        times = {topic_partition: max(0, since_ms)}
        answer = (await self._consumer.offsets_for_times(times))[topic_partition]
        return None if answer is None or answer.offset < 0 else answer.offset

    @property
    def silent_s(self) -> float:
        """Seconds since the last answer of a broker."""
        return time.monotonic() - self._answered_s

    async def poll(self, wait_s: float) -> list[Record | Gap] | None:
        """Return the next records; waits for the first record.

        Returns an empty list if a partition has ended or offsets without records were skipped, and
        None if nothing has changed.

        Raises:
            TopicReplaced: a partition ends before its position.
        """
        answers = {
            partition: (self._consumer.last_poll_timestamp(key), self._consumer.highwater(key))
            for partition, key in self._topic_partitions.items()
        }
        if answers != self._answers:
            self._answers, self._answered_s = answers, time.monotonic()
        try:
            batches = await self._consumer.getmany(
                timeout_ms=max(0, round(wait_s * 1000)), max_records=self._records_max
            )
        except OffsetOutOfRangeError as error:
            self._answered_s = time.monotonic()
            gaps = [await self._skip_deleted((key.topic, key.partition)) for key in error.args[0]]
            return [gap for gap in gaps if gap is not None]
        records: list[Record | Gap] = [
            Record(
                key.topic,
                key.partition,
                record.offset,
                NO_TIME if record.timestamp is None else record.timestamp,
                record.key,
                record.value,
            )
            for key, batch in batches.items()
            for record in batch
        ]
        # With fewer records than the maximum, no fetched record is left.
        changed = await self._update(answers, drained=len(records) < self._records_max)
        return records if records or changed else None

    async def _update(self, answers: Mapping[Partition, _Answer], *, drained: bool) -> bool:
        """Update the positions and ends of partitions; return whether any of them has changed."""
        changed = False
        for partition, key in self._topic_partitions.items():
            position = await self._consumer.position(key)
            if position != self._next[partition]:
                self._next[partition] = position
                self._seen_ms[partition] = self._consumer.last_poll_timestamp(key)
                self._ended.pop(partition, None)
                changed = True
                continue
            answered_ms, end = answers[partition]
            if drained and answered_ms not in (None, self._seen_ms[partition]) and end is not None:
                # The broker has answered without records since the position was reached.
                changed |= partition not in self._ended
                self._ended[partition] = end
        return changed

    async def _skip_deleted(self, partition: Partition) -> Gap | None:
        """Continue with the first existing record."""
        topic, number = partition
        first, end = await self.extent(partition)
        missing = self._next[partition]
        if missing > end:
            raise TopicReplaced(
                f"{topic} partition {number} ends at offset {end}; expected records from offset "
                f"{missing} on: the topic was deleted and created again. Restart this process"
            )
        self._next[partition] = max(missing, first)
        self._consumer.seek(self._topic_partitions[partition], self._next[partition])
        return Gap(topic, number, missing, first) if missing < first else None


class Reader:
    """Reads partitions forward and blocks; a context manager.

    All methods raise BrokerUnavailable if a partition cannot be read.
    """

    def __init__(
        self, connection: Connection, starts: Mapping[Partition, int], *, fetch_wait_ms: int = 100
    ) -> None:
        """Arguments are those of `PartitionReader`."""
        self._connection = connection
        self._waited_s = 0.0
        """Time in `more` since the last record."""
        self._reader = PartitionReader(connection.settings, starts, fetch_wait_ms=fetch_wait_ms)
        self.has_passed = self._reader.has_passed
        self.has_ended = self._reader.has_ended
        self._run(start_client(lambda: self._reader))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        wait_for(self._reader.stop())

    def poll(self, wait_s: float) -> list[Record | Gap]:
        """Return the next records; waits for the first record, or for the end of a partition."""
        return self._run(self._reader.poll(wait_s)) or []

    def more(self, *, due: bool) -> list[Record | Gap]:
        """Return the next records, or none; with `due`, raise an error if no record arrives.

        Raises:
            BrokerUnavailable: no broker has answered for `connect_timeout_s`, or a due record has not
                arrived within three times `connect_timeout_s`.
        """
        began_s = time.monotonic()
        records: list[Record | Gap] | None = self._run(self._reader.poll(_WAIT_S))
        if records is not None:
            self._waited_s = 0.0
            return records
        timeout_s = self._connection.settings.connect_timeout_s
        if due or self._reader.silent_s > timeout_s:
            self._connection.read_metadata()  # raises an error if no broker answers
        self._waited_s += time.monotonic() - began_s
        if due and self._waited_s > 3 * timeout_s:
            raise self._connection.silent(self._waited_s)
        return []

    def _run(self, work: Any) -> Any:
        try:
            return wait_for(work)
        except TopicReplaced as error:
            raise BrokerUnavailable(str(error)) from None
        except KafkaError as error:
            topics = ", ".join(sorted({topic for topic, _ in self._reader.partitions}))
            raise BrokerUnavailable(f"{topics}: {error}") from error


class Cursor:
    """Reads one partition in steps; deleted records are skipped."""

    def __init__(
        self, connection: Connection, topic: str, partition: int, first_offset: int = 0
    ) -> None:
        """Start at an offset; call `close` at the end."""
        self._partition = (topic, partition)
        self._reader = Reader(connection, {self._partition: first_offset})
        self._buffered: deque[Record] = deque()

    def close(self) -> None:
        self._reader.close()

    def through(self, last_offset: int) -> Iterator[Record]:
        """Yield the next records up to and including an offset. Raises BrokerUnavailable."""
        while True:
            while self._buffered:
                if self._buffered[0].offset > last_offset:
                    return
                yield self._buffered.popleft()
            if self._reader.has_passed(self._partition, last_offset + 1):
                return
            if self._reader.has_ended(self._partition):
                return
            records = self._reader.more(due=True)
            self._buffered.extend(record for record in records if isinstance(record, Record))


def read_range(
    connection: Connection, topic: str, partition: int, first: int, end: int
) -> Iterator[Record]:
    """Yield records with offsets from `first` up to `end` (exclusive). Raises BrokerUnavailable."""
    if first < end:
        with closing(Cursor(connection, topic, partition, first)) as cursor:
            yield from cursor.through(end - 1)
