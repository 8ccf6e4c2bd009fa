"""The one reader of the connectors: records of partitions from given offsets on.

There is no consumer group, so no committed offset moves, and many may read the same at once.
Records that the broker has deleted before they were read come as one `Gap` and are never skipped
over. Not guaranteed: an order between partitions. The worker does not read through this module:
beside Faust it reads asynchronously, and waits for brokers that a command gives up.
"""

import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from connectors.kafka.client import BrokerUnavailable, Connection, Failures, client_options
from connectors.kafka.extents import extents_of
from schemas.limits import BATCH_BYTES_MAX

#: Timestamp of a record without one.
NO_TIME = -1

#: Topic and number of a partition.
Partition = tuple[str, int]

#: How long `Reader.more` waits for the first record, in seconds.
_WAIT_S = 0.25
_RECORDS_PER_CALL = 2_000
#: What librdkafka may fetch ahead, over all partitions of a reader, in KiB.
_AHEAD_KIB = 16 * 1024


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


class Reader:
    """Reads partitions forward; a context manager."""

    def __init__(
        self, connection: Connection, starts: Mapping[Partition, int], *, fetch_wait_ms: int = 100
    ) -> None:
        """Begin at an offset in each partition.

        Args:
            connection: an open one.
            starts: offset of the first record that is wanted, by partition.
            fetch_wait_ms: how long a broker may hold back an answer without records. The embedded
                one always does.
        """
        from confluent_kafka import Consumer, TopicPartition

        self._connection = connection
        self._next = dict(starts)
        self._at_end: set[Partition] = set()
        self._silent_s = 0.0
        self._failures = Failures()
        self._consumer: Any = Consumer(
            client_options(
                connection.settings,
                self._failures,
                **{
                    # librdkafka wants a group; without a subscription it is never joined.
                    "group.id": "loadstream-reader",
                    "enable.auto.commit": False,
                    # Records that are gone must be noticed.
                    "auto.offset.reset": "error",
                    # What workers read, who heed no transactions.
                    "isolation.level": "read_uncommitted",
                    "enable.partition.eof": True,
                    "queued.max.messages.kbytes": _AHEAD_KIB,
                    "fetch.wait.max.ms": fetch_wait_ms,
                    "fetch.queue.backoff.ms": 5,
                    "fetch.message.max.bytes": BATCH_BYTES_MAX,
                },
            )
        )
        self._consumer.assign([TopicPartition(*place, first) for place, first in starts.items()])

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Disconnect."""
        self._consumer.close()

    def has_passed(self, place: Partition, end: int) -> bool:
        """Whether nothing before the offset `end` is still to come."""
        return self._next[place] >= end or place in self._at_end

    def poll(self, wait_s: float) -> list[Record | Gap]:
        """What comes next; waits for its first record, or for the end of a partition.

        Raises:
            BrokerUnavailable: a partition cannot be read.
        """
        return self._receive(wait_s) or []

    def more(self, *, due: bool) -> list[Record | Gap]:
        """As `poll`; with `due`, that nothing comes is an error as well.

        Raises:
            BrokerUnavailable: no broker has answered for `connect_timeout_s`, or what is due has
                not come for three times as long.
        """
        began_s = time.monotonic()
        found = self._receive(_WAIT_S)
        if found is not None:
            self._silent_s = 0.0
            return found
        if due or self._failures.texts:
            reachable = self._is_reachable()
            self._silent_s += time.monotonic() - began_s
            limit_s = self._connection.settings.connect_timeout_s * (3 if reachable else 1)
            if self._silent_s > limit_s and (due or not reachable):
                raise BrokerUnavailable(
                    self._failures.explain(self._connection.settings, self._silent_s)
                )
        return []

    def _receive(self, wait_s: float) -> list[Record | Gap] | None:
        """What has come; none: neither a record nor the end of a partition."""
        first = self._consumer.poll(wait_s)
        if first is None:
            return None
        found: list[Record | Gap] = []
        for message in (first, *self._consumer.consume(_RECORDS_PER_CALL, 0)):
            place = message.topic(), message.partition()
            error = message.error()
            if error is None:
                self._next[place] = message.offset() + 1
                self._at_end.discard(place)
                _, timestamp_ms = message.timestamp()
                found.append(
                    Record(*place, message.offset(), timestamp_ms, message.key(), message.value())
                )
            elif error.name() == "_PARTITION_EOF":
                self._at_end.add(place)
            elif error.name() == "_AUTO_OFFSET_RESET":
                found.extend(self._go_on(place))
            else:
                raise BrokerUnavailable(f"{message.topic()}: {error.str()}")
        return found

    def _is_reachable(self) -> bool:
        from confluent_kafka import KafkaException

        topic = next(iter(self._next))[0]
        try:
            self._consumer.list_topics(topic, timeout=self._connection.settings.connect_timeout_s)
        except KafkaException:
            return False
        self._failures.texts.clear()
        return True

    def _go_on(self, place: Partition) -> Iterator[Gap]:
        """Go on with the first record that is there."""
        from confluent_kafka import TopicPartition

        topic, partition = place
        extent = extents_of(self._connection, topic)[partition]
        missing = self._next[place]
        if missing > extent.next_offset:
            raise BrokerUnavailable(
                f"{topic} partition {partition} ends at offset {extent.next_offset}; expected were "
                f"records from {missing} on: the topic was deleted and made again. Start anew"
            )
        self._next[place] = max(missing, extent.first_offset)
        # A partition in error takes no other position until it is assigned again.
        behind = TopicPartition(topic, partition, self._next[place])
        self._consumer.incremental_unassign([behind])
        self._consumer.incremental_assign([behind])
        if missing < extent.first_offset:
            yield Gap(topic, partition, missing, extent.first_offset)


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
            found = self._reader.more(due=True)
            self._ahead.extend(each for each in found if isinstance(each, Record))


def read_range(
    connection: Connection, topic: str, partition: int, first: int, end: int
) -> Iterator[Record]:
    """Records with offsets from `first` up to and without `end`. Raises BrokerUnavailable."""
    if first < end:
        with closing(Cursor(connection, topic, partition, first)) as cursor:
            yield from cursor.through(end - 1)
