"""Records out and in, at little cost: what is measured is the worker and not this side.

Messages are encoded before the clock starts. The producer is librdkafka's, idempotent, with the contract's
partitioner. The consumer reads all partitions without a group and notes when each record came.
"""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

from benchmarks.figures import Unproven
from connectors.kafka.records import place
from schemas.codec import encode
from schemas.connection import KafkaSettings
from schemas.limits import BATCH_BYTES_MAX
from schemas.topics import TOPIC_BY_NAME

#: Longest time without any answer of the worker.
PATIENCE_S = 90.0
_FLUSH_S = 60.0
_RECORDS_PER_CALL = 2_000


class Encoded(NamedTuple):
    """A record that is ready to be sent."""

    topic: str
    key: bytes
    value: bytes
    timestamp_ms: int | None


@dataclass(frozen=True, slots=True)
class Arrival:
    """A record that came."""

    topic: str
    value: bytes
    at_s: float
    """When, by the monotonic clock."""


def encoded(topic: str, messages: Iterable[Any]) -> list[Encoded]:
    """Messages as records."""
    records = []
    for message in messages:
        target = place(TOPIC_BY_NAME[topic], message)
        records.append(Encoded(topic, target.key, encode(message), target.timestamp_ms))
    return records


class Sender:
    """Sends records."""

    def __init__(self, settings: KafkaSettings) -> None:
        from confluent_kafka import Producer

        self._failures: list[str] = []
        self._producer = Producer(
            {
                **settings.librdkafka_options(),
                "log_level": 0,
                "enable.idempotence": True,
                "partitioner": "murmur2_random",
                "linger.ms": 1,
                "delivery.report.only.error": True,
                "message.max.bytes": BATCH_BYTES_MAX,
                "queue.buffering.max.kbytes": 256 * 1024,
                "on_delivery": self._report,
            }
        )

    def hand_over(self, record: Encoded) -> None:
        """Give a record to the client; it is on its way a moment later."""
        more = {} if record.timestamp_ms is None else {"timestamp": record.timestamp_ms}
        while True:
            try:
                self._producer.produce(record.topic, record.value, key=record.key, **more)
            except BufferError:
                self._producer.poll(0.01)
            else:
                return

    def send(self, records: Sequence[Encoded]) -> float:
        """Send all as fast as they go; answers how many a second the broker took."""
        began = time.perf_counter()
        for record in records:
            self.hand_over(record)
        self.flush()
        return len(records) / (time.perf_counter() - began)

    def flush(self) -> None:
        """Wait until the broker has everything; raises Unproven."""
        if self._producer.flush(_FLUSH_S) or self._failures:
            raise Unproven(self._failures[0] if self._failures else "records were not acknowledged")

    def _report(self, error: Any, record: Any) -> None:
        if error is not None:
            self._failures.append(f"a record for {record.topic()} was not taken: {error.str()}")


class Receiver:
    """Reads topics from where they end now, or from their beginning; a context manager."""

    def __init__(
        self, settings: KafkaSettings, topics: Sequence[str], *, from_beginning: bool = False
    ) -> None:
        from confluent_kafka import OFFSET_BEGINNING, Consumer, TopicPartition

        self._consumer: Any = Consumer(
            {
                **settings.librdkafka_options(),
                "log_level": 0,
                # librdkafka wants a group; without commits and subscriptions it is never joined.
                "group.id": "loadstream-bench",
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 10,
                "fetch.queue.backoff.ms": 2,
                "fetch.message.max.bytes": BATCH_BYTES_MAX,
            }
        )
        self._ends: dict[tuple[str, int], int] = {}
        places = [TopicPartition(t, p) for t in topics for p in range(settings.partitions)]
        for each in places:
            low, high = self._consumer.get_watermark_offsets(each, timeout=10.0)
            each.offset = OFFSET_BEGINNING if from_beginning or low == high == 0 else high
            self._ends[each.topic, each.partition] = high if high > low else 0
        self._places = places
        self._consumer.assign(places)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._consumer.close()

    def arrivals(self, wait_s: float) -> Iterator[Arrival]:
        """What has come, waiting so long for the first record; deletions, as claims of partitions are, left out."""
        first = self._consumer.poll(wait_s)
        if first is None:
            return
        records = [first, *self._consumer.consume(_RECORDS_PER_CALL, 0)]
        at_s = time.monotonic()
        for record in records:
            if record.error() is not None:
                raise Unproven(f"reading: {record.error().str()}")
            if (value := record.value()) is not None:
                yield Arrival(record.topic(), value, at_s)

    def whole(self) -> Iterator[Arrival]:
        """Everything up to where the topics ended when this was made, from the beginning."""
        deadline = time.monotonic() + PATIENCE_S
        # Where nothing has come yet, a position is none and compares as smaller.
        ends = {place: end for place, end in self._ends.items() if end}
        while any(
            each.offset < ends.get((each.topic, each.partition), each.offset)
            for each in self._consumer.position(self._places)
        ):
            yield from self.arrivals(0.2)
            if time.monotonic() > deadline:
                raise Unproven(
                    f"{', '.join(sorted({t for t, _ in self._ends}))}: not read to the end"
                )
