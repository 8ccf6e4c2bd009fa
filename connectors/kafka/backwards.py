"""The newest records of a cluster, newest first, without reading a topic from its beginning.

A cluster's records are in one partition. Reading starts with a small piece at its end and continues
with larger pieces before it, until the caller has enough or a limit is reached.
"""

from collections.abc import Generator, Iterator
from dataclasses import dataclass
from typing import Any

from connectors.kafka.client import Connection
from connectors.kafka.extents import Extent, read_topic_extents
from connectors.kafka.reader import Record, read_range
from schemas.base.refusals import Refusal
from schemas.topics.codec import decode
from schemas.topics.partitions import partition_for

#: Records of the first piece, and growth of the following ones.
_PIECE, _GROWTH = 64, 4


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
        extents = read_topic_extents(self.connection, self.topic)
        if self.cluster is not None:
            extents = (extents[partition_for(self.cluster.encode(), len(extents))],)
        reached = []
        for extent in extents:
            reached.append((yield from self._of_partition(extent, looked, any_cluster)))
        looked.whole = all(reached)

    def _of_partition(
        self, extent: Extent, looked: Looked, any_cluster: bool
    ) -> Generator[Any, None, bool]:
        """Yield messages of a partition, newest first; return whether its first record was reached."""
        end, size, left = extent.next_offset, _PIECE, self.records_max
        while end > extent.first_offset and left > 0:
            begin = max(extent.first_offset, end - min(size, left))
            piece = list(read_range(self.connection, self.topic, extent.partition, begin, end))
            for record in reversed(piece):
                looked.records += 1
                message = decode(self.topic, record.value or b"")
                named = getattr(message, "cluster", self.cluster)
                if isinstance(message, Refusal):
                    continue
                if any_cluster or self.cluster in (None, named):
                    yield message
            left -= end - begin
            end, size = begin, size * _GROWTH
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
