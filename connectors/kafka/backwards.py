"""The newest records of a cluster, newest first, without reading a topic from its beginning.

A cluster's records are in one partition, at whose end reading begins: a small piece first, then larger
ones before it, until the caller has enough, a number of records was looked at, or records are too old.
"""

from collections.abc import Generator, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from connectors.kafka.admin import Extent, find_topics, read_extents
from connectors.kafka.client import BrokerUnavailable, Connection
from connectors.kafka.cursor import Cursor
from schemas.codec import decode
from schemas.partitions import partition_for
from schemas.refusals import Refusal

#: Records of the piece that is read first; each further one is larger by this factor.
_PIECE, _GROWTH = 64, 4


@dataclass(slots=True)
class Looked:
    """How far back a search has looked."""

    records: int = 0
    """Records looked at, those of other clusters included."""
    whole: bool = False
    """It came to the first record that there is, in every partition."""


@dataclass(frozen=True, slots=True)
class Past:
    """The messages of one cluster on one topic, from the newest back."""

    connection: Connection
    topic: str
    cluster: str | None
    """None: all clusters, each partition in its turn."""
    records_max: int
    """Most records of a partition that are looked at, those of other clusters included."""

    def newest(self, looked: Looked, *, any_cluster: bool = False) -> Iterator[Any]:
        """Messages, newest first; records that hold none are passed over.

        Raises BrokerUnavailable where the topic does not exist or no broker answers.
        """
        found = find_topics(self.connection, [self.topic])
        if not found:
            servers = ",".join(self.connection.settings.servers())
            raise BrokerUnavailable(
                f"topic {self.topic} does not exist at {servers}; make all topics with "
                "`loadstream topics create`"
            )
        extents = read_extents(self.connection, found.values())[self.topic]
        if self.cluster is not None:
            home = partition_for(self.cluster.encode(), found[self.topic].partitions)
            extents = (extents[home],)
        reached = []
        for extent in extents:
            reached.append((yield from self._of_partition(extent, looked, any_cluster)))
        looked.whole = all(reached)

    def _of_partition(
        self, extent: Extent, looked: Looked, any_cluster: bool
    ) -> Generator[Any, None, bool]:
        """Messages of a partition, newest first; answers whether these were all that there are."""
        end, size, left = extent.next_offset, _PIECE, self.records_max
        while end > extent.first_offset and left > 0:
            begin = max(extent.first_offset, end - min(size, left))
            for value in reversed(self._piece(extent.partition, begin, end)):
                looked.records += 1
                message = decode(self.topic, value)
                named = getattr(message, "cluster", self.cluster)
                if isinstance(message, Refusal):
                    continue
                if any_cluster or self.cluster in (None, named):
                    yield message
            left -= end - begin
            end, size = begin, size * _GROWTH
        return end <= extent.first_offset

    def _piece(self, partition: int, begin: int, end: int) -> list[bytes]:
        """Values from one offset up to another, oldest first."""
        with closing(Cursor(self.connection, self.topic, partition, begin)) as cursor:
            return [record.value or b"" for record in cursor.through(end - 1)]
