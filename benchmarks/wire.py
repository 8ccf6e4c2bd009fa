"""Records out and in, at little cost: what is measured is the worker and not this side.

Messages are encoded before the clock starts. All partitions are read, and when each record came is noted.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

from confluent_kafka import Producer

from benchmarks.figures import Unproven
from connectors.kafka.client import connect
from connectors.kafka.extents import read_topic_extents
from connectors.kafka.producer import COMPRESSION
from connectors.kafka.reader import Gap, Reader
from schemas.settings.connection import KafkaSettings
from schemas.topics.catalog import TOPIC_BY_NAME
from schemas.topics.codec import encode
from schemas.topics.records import RecordPlace, place_record

#: Longest time without any answer of the worker.
PATIENCE_S = 90.0


class Encoded(NamedTuple):
    """A record that is ready to be sent."""

    topic: str
    value: bytes
    target: RecordPlace


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record that came."""

    topic: str
    key: bytes
    value: bytes
    at_s: float
    """When, by the monotonic clock."""


def encoded(topic: str, messages: Iterable[Any]) -> list[Encoded]:
    """Messages as records."""
    return [
        Encoded(topic, encode(message), place_record(TOPIC_BY_NAME[topic], message))
        for message in messages
    ]


class Sender:
    """Sends records by librdkafka, which leaves more of the machine to the worker than our producer."""

    def __init__(self, settings: KafkaSettings) -> None:
        own = {"partitioner": "murmur2_random", "compression.type": COMPRESSION, "linger.ms": 1}
        room = {"queue.buffering.max.messages": 10_000_000, "queue.buffering.max.kbytes": 2**21 - 1}
        self._producer: Any = Producer({**settings.librdkafka_options(), **own, **room})

    def hand_over(self, record: Encoded) -> None:
        """Give a record to the client; it is on its way a moment later."""
        key, partition, at_ms = (
            record.target.key,
            record.target.partition,
            record.target.timestamp_ms,
        )
        where = {} if partition is None else {"partition": partition}
        self._producer.produce(record.topic, record.value, key, timestamp=at_ms or 0, **where)

    def send(self, records: Sequence[Encoded]) -> float:
        """Send all as fast as they go; answers how many a second the broker took."""
        began = time.perf_counter()
        for record in records:
            self.hand_over(record)
        if self._producer.flush(PATIENCE_S):
            raise Unproven("the broker did not acknowledge all records")
        return len(records) / (time.perf_counter() - began)


class Receiver:
    """Reads topics from where they end now, or from their beginning; a context manager."""

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Sequence[str],
        *,
        from_beginning: bool = False,
        fetch_wait_ms: int = 10,
    ) -> None:
        """`fetch_wait_ms` is how long a broker may wait for the first record of any partition."""
        connection = connect(settings)
        extents = {(t, e.partition): e for t in topics for e in read_topic_extents(connection, t)}
        self._ends = {place: extent.next_offset for place, extent in extents.items()}
        starts = {
            place: extent.first_offset if from_beginning else extent.next_offset
            for place, extent in extents.items()
        }
        self._reader = Reader(connection, starts, fetch_wait_ms=fetch_wait_ms)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def arrivals(self, wait_s: float) -> Iterator[Arrival]:
        """What has come, waiting so long for the first record; deletions, as claims of partitions are, left out."""
        deadline_s = time.monotonic() + wait_s
        records = self._reader.poll(wait_s)
        # The end of a partition answers a poll, too, without a record.
        while not records and (left_s := deadline_s - time.monotonic()) > 0:
            records = self._reader.poll(left_s)
        at_s = time.monotonic()
        for record in records:
            if isinstance(record, Gap):
                raise Unproven(str(record))
            if record.value is not None:
                yield Arrival(record.topic, record.key or b"", record.value, at_s)

    def whole(self) -> Iterator[Arrival]:
        """Everything up to where the topics ended when this was made, from the beginning."""
        deadline = time.monotonic() + PATIENCE_S
        while not all(self._reader.has_passed(place, end) for place, end in self._ends.items()):
            yield from self.arrivals(0.2)
            if time.monotonic() > deadline:
                raise Unproven(
                    f"{', '.join(sorted({t for t, _ in self._ends}))}: not read to the end"
                )
