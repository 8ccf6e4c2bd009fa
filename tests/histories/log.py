"""An in-memory Kafka with one partition: topics are append-only lists of records."""

from collections import defaultdict
from collections.abc import Iterator, Mapping

from pydantic import BaseModel

from schemas.topics.catalog import key_of
from schemas.topics.codec import encode
from schemas.topics.partitions import partition_for
from streams.stage.records import InputRecord, OutputRecord

#: The partition of all records, and how many partitions the topics have. The keys of valid records
#: hash to this partition.
PARTITION, PARTITIONS = 1, 4


def find_name(prefix: str, separator: str = "") -> str:
    """Return a name that begins with the prefix and, as a key, hashes to the partition."""
    number = 0
    while partition_for(f"{prefix}{separator}{number}".encode(), PARTITIONS) != PARTITION:
        number += 1
    return f"{prefix}{separator}{number}"


class Log:
    """All topics."""

    def __init__(self) -> None:
        self._topics: dict[str, list[InputRecord]] = defaultdict(list)

    def append(self, topic: str, key: bytes | None, value: bytes | None, now_ms: int) -> None:
        records = self._topics[topic]
        records.append(InputRecord(topic, PARTITION, len(records), key, value, now_ms))

    def send(self, topic: str, message: BaseModel, now_ms: int) -> None:
        """Append a message under its key."""
        self.append(topic, key_of(topic, message).encode(), encode(message), now_ms)

    def publish(self, output: OutputRecord, now_ms: int) -> None:
        """Append an output of a stage, unless it belongs to another partition."""
        key, partition = output.key.encode(), output.partition
        if (partition_for(key, PARTITIONS) if partition is None else partition) == PARTITION:
            self.append(output.topic, key, output.value, now_ms)

    def get(self, topic: str, offset: int) -> InputRecord | None:
        """Return the record at an offset, or None at the end of the topic."""
        records = self._topics[topic]
        return records[offset] if offset < len(records) else None

    def read_from(self, topic: str, offset: int) -> list[InputRecord]:
        return self._topics[topic][offset:]

    def get_newest(self, topic: str) -> InputRecord | None:
        return self._topics[topic][-1] if self._topics[topic] else None


class ReplayInputs:
    """The input topics as a replay reads them: each record once."""

    def __init__(self, log: Log, next_offsets: Mapping[str, int]) -> None:
        self._log, self._next_offsets = log, dict(next_offsets)

    def read_through(self, topic: str, last_offset: int) -> Iterator[InputRecord]:
        """Yield the records not yet read, up to an offset."""
        for record in self._log.read_from(topic, self._next_offsets.get(topic, 0)):
            if record.offset > last_offset:
                return
            self._next_offsets[topic] = record.offset + 1
            yield record
