"""The newest records of a cluster, newest first, without reading a topic from its beginning.

A cluster's records are in one partition. Reading starts with a small piece at its end and continues
with larger pieces before it, until the caller has enough or a limit is reached.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from connectors.kafka.client import Connection
from connectors.kafka.extents import Extent, count_partitions, extent_of, read_topic_extents
from connectors.kafka.reader import Record, read_range
from schemas.base.refusals import Refusal
from schemas.topics.codec import decode
from schemas.topics.partitions import partition_for

#: Records of the piece that is read first; each further one is larger by this factor, up to a size that
#: bounds what is read and not asked for.
_PIECE, _GROWTH, _PIECE_MAX = 64, 4, 2_048


@dataclass(slots=True)
class Looked:
    """How far back a search has read."""

    records: int = 0
    """Number of records read, including those of other clusters."""
    whole: bool = False
    """True: it has reached the first record in every partition."""


@dataclass(frozen=True, slots=True)
class Past:
    """The messages of one cluster on one topic, newest first."""

    connection: Connection
    topic: str
    cluster: str | None
    """None: all clusters, one partition after the other."""
    records_max: int
    """Most records to read per partition, including those of other clusters."""

    def newest(self, looked: Looked, *, any_cluster: bool = False) -> Iterator[Any]:
        """Yield messages, newest first; unreadable records are skipped.

        Raises BrokerUnavailable if the topic does not exist or no broker answers.
        """
        for record in self.records(looked):
            message = decode(self.topic, record.value or b"")
            named = getattr(message, "cluster", self.cluster)
            if isinstance(message, Refusal):
                continue
            if any_cluster or self.cluster in (None, named):
                yield message

    def records(self, looked: Looked) -> Iterator[Record]:
        """Records as they are, newest first, those of other clusters included.

        Raises BrokerUnavailable if the topic does not exist or no broker answers.
        """
        count = count_partitions(self.connection, self.topic)
        numbers: Iterable[int] = range(count)
        if self.cluster is not None:
            numbers = (partition_for(self.cluster.encode(), count),)
        reached = []
        for number in numbers:
            extent = extent_of(self.connection, self.topic, number)
            reached.append((yield from self._of_partition(extent, looked)))
        looked.whole = all(reached)

    def _of_partition(self, extent: Extent, looked: Looked) -> Generator[Record, None, bool]:
        """Records of a partition, newest first; returns whether these were all that there are."""
        end, size, left = extent.next_offset, _PIECE, self.records_max
        while end > extent.first_offset and left > 0:
            begin = max(extent.first_offset, end - min(size, left))
            piece = list(read_range(self.connection, self.topic, extent.partition, begin, end))
            for record in reversed(piece):
                looked.records += 1
                yield record
            left -= end - begin
            end, size = begin, min(size * _GROWTH, _PIECE_MAX)
        return end <= extent.first_offset


class Arrivals:
    """New records in the partition of a key."""

    def __init__(self, connection: Connection, topic: str, key: str) -> None:
        """Start at the current end. Raises BrokerUnavailable."""
        self._connection = connection
        self.topic = topic
        extents = read_topic_extents(connection, topic)
        self.partition = partition_for(key.encode(), len(extents))
        self._next = extents[self.partition].next_offset

    def take(self) -> list[Record]:
        """Return the records since the last call. Raises BrokerUnavailable."""
        first = self._next
        self._next = read_topic_extents(self._connection, self.topic)[self.partition].next_offset
        return list(read_range(self._connection, self.topic, self.partition, first, self._next))
