"""What comes to one partition from now on, looked at again and again without a consumer group."""

from connectors.kafka.client import Connection
from connectors.kafka.extents import extents_of
from connectors.kafka.reader import Record, read_range
from schemas.topics.partitions import partition_for


class Arrivals:
    """The partition of a key; `take` answers with what has come since."""

    def __init__(self, connection: Connection, topic: str, key: str) -> None:
        """Begin at the end as it is now. Raises BrokerUnavailable."""
        self._connection = connection
        self.topic = topic
        extents = extents_of(connection, topic)
        self.partition = partition_for(key.encode(), len(extents))
        self._next = extents[self.partition].next_offset

    def take(self) -> list[Record]:
        """Records that have come since the last call. Raises BrokerUnavailable."""
        first = self._next
        self._next = extents_of(self._connection, self.topic)[self.partition].next_offset
        return list(read_range(self._connection, self.topic, self.partition, first, self._next))
