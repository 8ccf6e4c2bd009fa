"""What comes to one partition from now on, looked at again and again without a consumer group."""

from contextlib import closing

from connectors.kafka.admin import find_topics, read_extents
from connectors.kafka.client import BrokerUnavailable, Connection
from connectors.kafka.cursor import Cursor, StoredRecord
from schemas.partitions import partition_for


class Arrivals:
    """The partition of a key; `take` answers with what has come since."""

    def __init__(self, connection: Connection, topic: str, key: str) -> None:
        """Begin at the end as it is now. Raises BrokerUnavailable."""
        self._connection = connection
        self.topic = topic
        found = find_topics(connection, [topic])
        if not found:
            servers = ",".join(connection.settings.servers())
            raise BrokerUnavailable(
                f"topic {topic} does not exist at {servers}; make all topics with "
                "`loadstream topics create`"
            )
        self.partition = partition_for(key.encode(), found[topic].partitions)
        self._next = self._end()

    def take(self) -> list[StoredRecord]:
        """Records that have come since the last call. Raises BrokerUnavailable."""
        end = self._end()
        if end <= self._next:
            return []
        with closing(Cursor(self._connection, self.topic, self.partition, self._next)) as cursor:
            records = list(cursor.through(end - 1))
        self._next = end
        return records

    def _end(self) -> int:
        found = find_topics(self._connection, [self.topic])
        return read_extents(self._connection, found.values())[self.topic][
            self.partition
        ].next_offset
