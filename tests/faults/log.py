"""An in-memory Kafka: topics of some partitions, append only, each record with the time it was written."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from schemas.topics.catalog import key_of
from schemas.topics.codec import encode
from schemas.topics.partitions import partition_for
from streams.stage.records import InputRecord, OutputRecord
from tests.faults.trace import PARTITIONS


class Log:
    """All topics."""

    def __init__(self) -> None:
        self._records: dict[tuple[str, int], list[InputRecord]] = defaultdict(list)

    def append(
        self, topic: str, value: bytes, key: bytes, now_ms: int, partition: int | None = None
    ) -> None:
        """Write one record to the partition of its key, or to a given one."""
        place = partition_for(key, PARTITIONS) if partition is None else partition
        records = self._records[topic, place]
        records.append(InputRecord(topic, place, len(records), key, value, now_ms))

    def say(self, topic: str, message: Any, now_ms: int) -> None:
        """Write a message under its key."""
        key = key_of(topic, message)
        partition = message.partition if topic == "clock" else None
        self.append(topic, encode(message), key.encode(), now_ms, partition)

    def publish(self, record: OutputRecord, now_ms: int) -> None:
        """Write what a stage put out."""
        self.append(record.topic, record.value, record.key.encode(), now_ms, record.partition)

    def after(self, topic: str, partition: int, position: int) -> InputRecord | None:
        """The record after a position; None: there is none yet."""
        records = self._records[topic, partition]
        return records[position + 1] if position + 1 < len(records) else None

    def newest(self, topic: str, partition: int) -> InputRecord | None:
        """The last record of a partition; None: there is none."""
        records = self._records[topic, partition]
        return records[-1] if records else None

    def since(self, topic: str, partition: int, offset: int) -> list[InputRecord]:
        """Records from an offset on."""
        return self._records[topic, partition][offset:]

    @property
    def count(self) -> int:
        """How many records there are."""
        return sum(map(len, self._records.values()))


class Inputs:
    """The input topics of one partition, read once, as a replay reads them."""

    def __init__(self, log: Log, partition: int, following: Mapping[str, int]) -> None:
        self._log, self._partition = log, partition
        self._following = dict(following)

    def through(self, topic: str, last_offset: int) -> Iterator[InputRecord]:
        """Records that were not given before, up to an offset."""
        for record in self._log.since(topic, self._partition, self._following.get(topic, 0)):
            if record.offset > last_offset:
                return
            self._following[topic] = record.offset + 1
            yield record
