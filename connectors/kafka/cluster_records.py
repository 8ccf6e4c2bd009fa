"""Records and rows of one cluster, for commands.

A cluster's records are in one partition. `PastMessages` reads the newest records first: a small piece
at the end of the partition, then larger and earlier pieces, until the caller stops or a limit is
reached. `Arrivals` reads records that arrive later. `read_rows` reads rows from the changelog of a
table; a worker writes rows every few seconds, so the newest changes may be missing.
"""

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from connectors.kafka.client import Connection
from connectors.kafka.extents import Extent, count_partitions, extent_of, read_topic_extents
from connectors.kafka.reader import Record, read_range
from connectors.kafka.topics import changelog_name
from schemas.base.message import Message
from schemas.base.refusals import Refusal
from schemas.storage.tables import TABLE_OF_KIND, row_key
from schemas.topics.codec import decode, decode_as
from schemas.topics.partitions import partition_for

#: Records in the first piece, factor for each further piece, and most records in a piece.
_PIECE, _GROWTH, _PIECE_MAX = 64, 4, 2_048


@dataclass(slots=True)
class SearchProgress:
    """How far back a search has read."""

    records: int = 0
    """Number of records read, including those of other clusters."""
    whole: bool = False
    """True: the search has reached the first record of every partition."""


@dataclass(frozen=True, slots=True)
class PastMessages:
    """The messages of one cluster on one topic, newest first."""

    connection: Connection
    topic: str
    cluster: str | None
    """None: all clusters, one partition after the other."""
    records_max: int
    """Most records to read per partition, including those of other clusters."""

    def newest(self, progress: SearchProgress | None = None) -> Iterator[Any]:
        """Yield the readable messages of the cluster, newest first.

        Raises BrokerUnavailable if the topic does not exist or no broker answers.
        """
        for record in self.records(progress or SearchProgress()):
            message = decode(self.topic, record.value or b"")
            of_cluster = self.cluster in (None, getattr(message, "cluster", self.cluster))
            if of_cluster and not isinstance(message, Refusal):
                yield message

    def records(self, progress: SearchProgress) -> Iterator[Record]:
        """Yield records, newest first, including those of other clusters.

        Raises BrokerUnavailable if the topic does not exist or no broker answers.
        """
        count = count_partitions(self.connection, self.topic)
        numbers: Iterable[int] = range(count)
        if self.cluster is not None:
            numbers = (partition_for(self.cluster.encode(), count),)
        reached = []
        for number in numbers:
            extent = extent_of(self.connection, self.topic, number)
            reached.append((yield from self._read_back(extent, progress)))
        progress.whole = all(reached)

    def _read_back(self, extent: Extent, progress: SearchProgress) -> Generator[Record, None, bool]:
        """Yield records of a partition, newest first; return whether the first record is reached."""
        end, size, remaining = extent.next_offset, _PIECE, self.records_max
        while end > extent.first_offset and remaining > 0:
            begin = max(extent.first_offset, end - min(size, remaining))
            piece = list(read_range(self.connection, self.topic, extent.partition, begin, end))
            for record in reversed(piece):
                progress.records += 1
                yield record
            remaining -= end - begin
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


R = TypeVar("R", bound=Message)


def read_rows(connection: Connection, kind: str, cluster: str, row_class: type[R]) -> list[R]:
    """Return the newest rows of one kind in a cluster. Raises BrokerUnavailable."""
    topic = changelog_name(TABLE_OF_KIND[kind])
    extents = read_topic_extents(connection, topic)
    extent = extents[partition_for(cluster.encode(), len(extents))]
    prefix = row_key(extent.partition, cluster, kind).encode()
    rows: dict[bytes, R] = {}
    for record in read_range(
        connection, topic, extent.partition, extent.first_offset, extent.next_offset
    ):
        key = record.key or b""
        if not key.startswith(prefix):
            continue
        row = None if record.value is None else decode_as(row_class, record.value)
        if isinstance(row, row_class):
            rows[key] = row
        else:
            rows.pop(key, None)
    return list(rows.values())
