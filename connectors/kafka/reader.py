"""The one reader of ours: records of partitions from given offsets on.

There is no consumer group, so no committed offset moves, and many may read the same at once.
`PartitionReader` is asynchronous; `Reader` serves commands, which block, and gives up when no broker
answers.

Offsets without a record are normal and no loss: markers of transactions, records that compaction has
removed. Records that the broker has deleted before they were read come as one `Gap`. Records of
aborted transactions are read, since workers read them. Not guaranteed: an order between partitions.
"""

import asyncio
import time
from collections import deque
from collections.abc import Collection, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from connectors.kafka.client import BrokerUnavailable, Connection, wait_for
from schemas.base.limits import BATCH_BYTES_MAX

if TYPE_CHECKING:
    from schemas.settings.connection import KafkaSettings

#: Timestamp of a record without one.
NO_TIME = -1

#: Topic and number of a partition.
Partition = tuple[str, int]

#: When a broker has answered last, in milliseconds, and the partition's end by that answer.
_Answer = tuple[int | None, int | None]

#: How long `Reader.more` waits for the first record, in seconds.
_WAIT_S = 0.25
#: Most records that are handed out at once.
RECORDS_MAX = 2_000


class Record(NamedTuple):
    """One record of a partition, unchanged."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    """`NO_TIME`: it has none."""
    key: bytes | None
    value: bytes | None


@dataclass(frozen=True, slots=True)
class Gap:
    """Records that were deleted before they could be read."""

    topic: str
    partition: int
    first_offset: int
    """First one that is missing."""
    next_offset: int
    """First one that is there again."""

    def __str__(self) -> str:
        return (
            f"{self.topic} partition {self.partition}: the records {self.first_offset} to "
            f"{self.next_offset - 1} are gone, deleted by the broker"
        )


class TopicReplaced(RuntimeError):
    """A partition ends before the offset that is wanted; the message names both."""


class PartitionReader:
    """Reads partitions forward; `start` it, and `stop` it afterwards.

    All methods raise KafkaError of aiokafka.
    """

    def __init__(
        self,
        settings: "KafkaSettings",
        starts: Mapping[Partition, int],
        *,
        fetch_wait_ms: int = 100,
        fetch_bytes_max: int = BATCH_BYTES_MAX,
        records_max: int = RECORDS_MAX,
    ) -> None:
        """Begin at an offset in each partition.

        Args:
            settings: how to reach Kafka.
            starts: offset of the first record that is wanted, by partition.
            fetch_wait_ms: how long a broker may hold back an answer without records. The embedded
                one always does.
            fetch_bytes_max: most bytes of a partition that a broker sends at once; a larger record
                comes alone.
            records_max: most records that `poll` returns.
        """
        self._settings = settings
        self._next = dict(starts)
        self._fetch_wait_ms = fetch_wait_ms
        self._fetch_bytes_max = fetch_bytes_max
        self._records_max = records_max
        self._consumer: Any = None
        self._places: dict[Partition, Any] = {}
        self._seen_ms: dict[Partition, int | None] = {}
        """When the broker had answered last as each partition came to its position."""
        self._ended: dict[Partition, int] = {}
        """Ends of partitions of which the broker has nothing behind the position."""
        self._answers: dict[Partition, _Answer] = {}
        self._answered_s = time.monotonic()

    async def start(self) -> None:
        """Connect."""
        from aiokafka import AIOKafkaConsumer

        self._consumer = AIOKafkaConsumer(
            **self._settings.aiokafka_options(),
            enable_auto_commit=False,
            auto_offset_reset="none",  # records that are gone must be noticed
            fetch_max_wait_ms=self._fetch_wait_ms,
            max_partition_fetch_bytes=self._fetch_bytes_max,
        )
        await self._consumer.start()
        self._answered_s = time.monotonic()
        if self._next:
            self.assign(self._next)

    def assign(self, starts: Mapping[Partition, int]) -> None:
        """Read these partitions from now on, from these offsets on."""
        from aiokafka import TopicPartition

        self._next = dict(starts)
        self._places = {place: TopicPartition(*place) for place in starts}
        self._consumer.assign(list(self._places.values()))
        for place, offset in starts.items():
            self._consumer.seek(self._places[place], offset)
        self._seen_ms = dict.fromkeys(starts)
        self._ended = {}

    async def stop(self) -> None:
        """Disconnect."""
        if self._consumer is None:
            return
        try:
            await self._consumer.stop()
        except asyncio.CancelledError:
            # aiokafka raises it if a connection was being made; the rest is then left open.
            await self._consumer._client.close()  # noqa: SLF001 - no other way
            if asyncio.current_task().cancelling():  # type: ignore[union-attr]  # in a task always
                raise

    @property
    def partitions(self) -> frozenset[Partition]:
        """The partitions that are read."""
        return frozenset(self._next)

    def position(self, place: Partition) -> int:
        """Offset behind the last one that was read or passed over."""
        return self._next[place]

    def has_passed(self, place: Partition, end: int) -> bool:
        """Tell whether no record before the offset `end` is still to come."""
        return self._next[place] >= end or self._ended.get(place, -1) >= end

    def has_ended(self, place: Partition) -> bool:
        """Tell whether the broker has nothing behind the position."""
        return place in self._ended

    async def extent(self, place: Partition) -> tuple[int, int]:
        """Return the first offset of a partition and the one that its next record gets."""
        return (await self.extents([place]))[place]

    async def extents(self, places: Collection[Partition]) -> dict[Partition, tuple[int, int]]:
        """Return the first offset of each partition and the one that its next record gets."""
        from aiokafka import TopicPartition

        if not places:
            await self._consumer.topics()  # whether a broker answers is an answer too
            return {}
        partitions = [TopicPartition(*place) for place in places]
        first = await self._consumer.beginning_offsets(partitions)
        ends = await self._consumer.end_offsets(partitions)
        return {(each.topic, each.partition): (first[each], ends[each]) for each in partitions}

    async def offset_since(self, place: Partition, since_ms: int) -> int | None:
        """Return the offset of the first record of `since_ms` or later; None: the broker knows none."""
        from aiokafka import TopicPartition

        each = TopicPartition(*place)
        found = (await self._consumer.offsets_for_times({each: max(0, since_ms)}))[each]
        return None if found is None or found.offset < 0 else found.offset

    @property
    def silent_s(self) -> float:
        """Seconds since a broker has answered."""
        return time.monotonic() - self._answered_s

    async def poll(self, wait_s: float) -> list[Record | Gap] | None:
        """Return what comes next; waits for its first record.

        An empty list: a partition has ended, or offsets without records were passed. None: neither.

        Raises:
            TopicReplaced: a partition ends before its position.
        """
        from aiokafka.errors import OffsetOutOfRangeError

        answers = {
            place: (self._consumer.last_poll_timestamp(each), self._consumer.highwater(each))
            for place, each in self._places.items()
        }
        if answers != self._answers:
            self._answers, self._answered_s = answers, time.monotonic()
        try:
            batches = await self._consumer.getmany(
                timeout_ms=max(0, round(wait_s * 1000)), max_records=self._records_max
            )
        except OffsetOutOfRangeError as error:
            self._answered_s = time.monotonic()
            found = [await self._go_on((each.topic, each.partition)) for each in error.args[0]]
            return [gap for gap in found if gap is not None]
        records: list[Record | Gap] = [
            Record(
                place.topic,
                place.partition,
                each.offset,
                NO_TIME if each.timestamp is None else each.timestamp,
                each.key,
                each.value,
            )
            for place, batch in batches.items()
            for each in batch
        ]
        # With fewer records than allowed, no partition has one that was fetched and not handed out.
        moved = await self._move(answers, drained=len(records) < self._records_max)
        return records if records or moved else None

    async def _move(self, answers: Mapping[Partition, _Answer], *, drained: bool) -> bool:
        """Note positions and ends of the partitions; tell whether one has changed."""
        changed = False
        for place, each in self._places.items():
            position = await self._consumer.position(each)
            if position != self._next[place]:
                self._next[place] = position
                self._seen_ms[place] = self._consumer.last_poll_timestamp(each)
                self._ended.pop(place, None)
                changed = True
                continue
            answered_ms, end = answers[place]
            if drained and answered_ms not in (None, self._seen_ms[place]) and end is not None:
                # The broker has answered since the position was reached, and sent nothing.
                changed |= place not in self._ended
                self._ended[place] = end
        return changed

    async def _go_on(self, place: Partition) -> Gap | None:
        """Go on with the first record that is there."""
        topic, partition = place
        first, end = await self.extent(place)
        missing = self._next[place]
        if missing > end:
            raise TopicReplaced(
                f"{topic} partition {partition} ends at offset {end}; expected were records from "
                f"{missing} on: the topic was deleted and made again. Restart this process"
            )
        self._next[place] = max(missing, first)
        self._consumer.seek(self._places[place], self._next[place])
        return Gap(topic, partition, missing, first) if missing < first else None


class Reader:
    """Reads partitions forward and blocks; a context manager.

    All methods raise BrokerUnavailable if a partition cannot be read.
    """

    def __init__(
        self, connection: Connection, starts: Mapping[Partition, int], *, fetch_wait_ms: int = 100
    ) -> None:
        """As of `PartitionReader`."""
        self._connection = connection
        self._silent_s = 0.0
        self._reader = PartitionReader(connection.settings, starts, fetch_wait_ms=fetch_wait_ms)
        self.has_passed = self._reader.has_passed
        self.has_ended = self._reader.has_ended
        self._run(self._start())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect."""
        wait_for(self._reader.stop())

    def poll(self, wait_s: float) -> list[Record | Gap]:
        """Return what comes next; waits for its first record, or for the end of a partition."""
        return self._run(self._reader.poll(wait_s)) or []

    def more(self, *, due: bool) -> list[Record | Gap]:
        """As `poll`; with `due`, that nothing comes is an error as well.

        Raises:
            BrokerUnavailable: no broker has answered for `connect_timeout_s`, or what is due has
                not come for three times as long.
        """
        began_s = time.monotonic()
        found: list[Record | Gap] | None = self._run(self._reader.poll(_WAIT_S))
        if found is not None:
            self._silent_s = 0.0
            return found
        timeout_s = self._connection.settings.connect_timeout_s
        if due or self._reader.silent_s > timeout_s:
            reachable = self._is_reachable()
            self._silent_s += time.monotonic() - began_s
            silent_s = self._silent_s if due else self._reader.silent_s
            if silent_s > timeout_s * (3 if reachable else 1) and (due or not reachable):
                raise self._connection.silent(silent_s)
        return []

    async def _start(self) -> None:
        try:
            await self._reader.start()
        except BaseException:
            await self._reader.stop()
            raise

    def _run(self, work: Any) -> Any:
        from aiokafka.errors import KafkaError

        try:
            return wait_for(work)
        except TopicReplaced as error:
            raise BrokerUnavailable(str(error)) from None
        except KafkaError as error:
            topics = ", ".join(sorted({topic for topic, _ in self._reader.partitions}))
            raise BrokerUnavailable(f"{topics}: {error}") from error

    def _is_reachable(self) -> bool:
        from confluent_kafka import KafkaException

        try:
            self._connection.admin.list_topics(timeout=self._connection.settings.connect_timeout_s)
        except KafkaException:
            return False
        return True


class Cursor:
    """One partition, read as far as is asked for each time; what is gone is passed over."""

    def __init__(
        self, connection: Connection, topic: str, partition: int, first_offset: int = 0
    ) -> None:
        """Begin at an offset; `close` it afterwards."""
        self._place = (topic, partition)
        self._reader = Reader(connection, {self._place: first_offset})
        self._ahead: deque[Record] = deque()

    def close(self) -> None:
        """Disconnect."""
        self._reader.close()

    def through(self, last_offset: int) -> Iterator[Record]:
        """Records after those given before, up to and with an offset; fewer if the partition ends.

        Raises BrokerUnavailable.
        """
        while True:
            while self._ahead:
                if self._ahead[0].offset > last_offset:
                    return
                yield self._ahead.popleft()
            if self._reader.has_passed(self._place, last_offset + 1):
                return
            if self._reader.has_ended(self._place):
                return
            found = self._reader.more(due=True)
            self._ahead.extend(each for each in found if isinstance(each, Record))


def read_range(
    connection: Connection, topic: str, partition: int, first: int, end: int
) -> Iterator[Record]:
    """Records with offsets from `first` up to and without `end`. Raises BrokerUnavailable."""
    if first < end:
        with closing(Cursor(connection, topic, partition, first)) as cursor:
            yield from cursor.through(end - 1)
