"""The demo's connection to its broker: messages out, messages in.

Reading needs no group: all partitions are read, from their beginning or from now on. A record that the broker does not
take, or a message that cannot be read, is an error, as both would falsify what is shown.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Literal

from connectors.brokers.embedded import EMBEDDED_PARTITIONS
from connectors.kafka.records import place
from schemas.codec import decode, encode
from schemas.connection import KafkaSettings
from schemas.limits import BATCH_BYTES_MAX
from schemas.refusals import Refusal
from schemas.topics import TOPIC_BY_NAME

_FLUSH_S = 10.0
_ANSWER_S = 10.0
_RECORDS_PER_CALL = 500


class WireError(RuntimeError):
    """The broker did not take a record, or sent one that cannot be read."""


class Wire:
    """Producer and consumer; a context manager."""

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Sequence[str],
        partitions: int = EMBEDDED_PARTITIONS,
        *,
        since: Literal["beginning", "now"] = "beginning",
    ) -> None:
        """`topics` are read, of which each has so many partitions. Raises WireError."""
        from confluent_kafka import Consumer, KafkaException, Producer, TopicPartition

        common = {**settings.librdkafka_options(), "log_level": 0}
        self._failures: list[str] = []
        self._producer = Producer(
            {
                **common,
                "partitioner": "murmur2_random",
                "linger.ms": 2,
                "delivery.report.only.error": True,
                "message.max.bytes": BATCH_BYTES_MAX,
                "on_delivery": self._report,
            }
        )
        self._consumer = Consumer(
            {
                **common,
                # librdkafka wants a group; without commits and subscriptions it is never joined.
                "group.id": "loadstream-demo",
                "enable.auto.commit": False,
                # Records that the broker has dropped before they were read must be noticed.
                "auto.offset.reset": "error",
                "fetch.wait.max.ms": 20,
                "fetch.queue.backoff.ms": 5,
                "fetch.message.max.bytes": BATCH_BYTES_MAX,
            }
        )
        places = [TopicPartition(t, p, 0) for t in topics for p in range(partitions)]
        if since == "now":
            try:
                for each in places:
                    each.offset = self._consumer.get_watermark_offsets(each, timeout=_ANSWER_S)[1]
            except KafkaException as error:
                raise WireError(f"where {each.topic} ends: {error.args[0].str()}") from error
        self._consumer.assign(places)

    def __enter__(self) -> "Wire":
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.close()
        self._producer.purge()
        self._producer.poll(0)

    def send(self, topic: str, message: Any) -> None:
        """Hand a message over; it is on its way a moment later."""
        target = place(TOPIC_BY_NAME[topic], message)
        record: dict[str, Any] = {"key": target.key, "value": encode(message)}
        if target.partition is not None:
            record["partition"] = target.partition
        if target.timestamp_ms is not None:
            record["timestamp"] = target.timestamp_ms
        while not self._taken(topic, record):
            self._producer.poll(0.05)

    def receive(self, timeout_s: float) -> Iterator[tuple[Any, int]]:
        """Messages and their offsets as they come, for so long; raises WireError."""
        deadline = time.monotonic() + timeout_s
        while True:
            self._producer.poll(0)
            if self._failures:
                raise WireError(self._failures[0])
            left_s = deadline - time.monotonic()
            record = self._consumer.poll(max(0.0, left_s))
            if record is None:
                return
            yield self._message(record)
            for more in self._consumer.consume(_RECORDS_PER_CALL, 0):
                yield self._message(more)
            if left_s <= 0:
                return

    def flush(self) -> None:
        """Wait until the broker has everything; raises WireError."""
        if self._producer.flush(_FLUSH_S) or self._failures:
            raise WireError(
                self._failures[0]
                if self._failures
                else f"no acknowledgement within {_FLUSH_S:.0f} s"
            )

    def _taken(self, topic: str, record: dict[str, Any]) -> bool:
        """Whether the producer's queue had room for a record."""
        try:
            self._producer.produce(topic, **record)
        except BufferError:
            return False
        return True

    def _message(self, record: Any) -> tuple[Any, int]:
        if record.error() is not None:
            raise WireError(f"reading: {record.error().str()}")
        message = decode(record.topic(), record.value())
        if isinstance(message, Refusal):
            raise WireError(
                f"{record.topic()} partition {record.partition()} offset {record.offset()}:"
                f" {message.reason}"
            )
        return message, record.offset()

    def _report(self, error: Any, record: Any) -> None:
        if error is not None:
            self._failures.append(f"a record for {record.topic()} was not taken: {error.str()}")
