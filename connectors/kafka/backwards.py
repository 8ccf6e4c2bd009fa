"""The newest records of a cluster, newest first, without reading a topic from its beginning.

A cluster's records are in one partition, at whose end reading begins: a small piece first, then larger
ones before it, until whoever asks has enough, so many records were looked at, or records are too old.
"""

from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import Any

from connectors.kafka.admin import find_topics, read_extents
from connectors.kafka.client import BrokerUnavailable, Connection
from connectors.kafka.cursor import Cursor
from schemas.codec import decode
from schemas.partitions import partition_for
from schemas.refusals import Refusal

#: Records of the piece that is read first; each further one is so many times as large.
_PIECE, _GROWTH = 64, 4


@dataclass(slots=True)
class Looked:
    """How far back a search has looked."""

    records: int = 0
    """Records looked at, those of other clusters included."""
    whole: bool = False
    """It came to the first record that there is."""


@dataclass(frozen=True, slots=True)
class Past:
    """The messages of one cluster on one topic, from the newest back."""

    connection: Connection
    topic: str
    cluster: str
    records_max: int
    """So many records are looked at at most, whosever they are."""

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
        partition = partition_for(self.cluster.encode(), found[self.topic].partitions)
        extent = read_extents(self.connection, found.values())[self.topic][partition]
        end, size = extent.next_offset, _PIECE
        while end > extent.first_offset and looked.records < self.records_max:
            begin = max(extent.first_offset, end - size, end - self.records_max + looked.records)
            for value in reversed(self._piece(partition, begin, end)):
                looked.records += 1
                message = decode(self.topic, value)
                if isinstance(message, Refusal):
                    continue
                if any_cluster or getattr(message, "cluster", self.cluster) == self.cluster:
                    yield message
            end, size = begin, size * _GROWTH
        looked.whole = end <= extent.first_offset

    def _piece(self, partition: int, begin: int, end: int) -> list[bytes]:
        """Values from one offset up to another, oldest first."""
        with closing(Cursor(self.connection, self.topic, partition, begin)) as cursor:
            return [record.value or b"" for record in cursor.through(end - 1)]
