"""The one sender of the connectors: records out, each acknowledged by all replicas.

A retry of the client doubles nothing. Keys choose partitions by the contract's partitioner. The
worker does not write through this module: its producers are fenced by partition
(`streams.worker.store.fence`).
"""

from functools import partial
from typing import Any

from connectors.kafka.client import BrokerUnavailable, Connection, Failures, client_options
from connectors.kafka.records import Place, place
from schemas.codec import encode
from schemas.limits import BATCH_BYTES_MAX
from schemas.topics import TOPIC_BY_NAME

#: How long a record may wait for its acknowledgement before the broker counts as gone.
DELIVERY_TIMEOUT_MS = 30_000


class Sender:
    """Sends records to any topic; `flush` says whether they have arrived."""

    def __init__(
        self, connection: Connection, *, linger_ms: int = 20, keep_places: bool = False
    ) -> None:
        """Connect with the first record.

        Args:
            connection: an open one.
            linger_ms: how long a record may wait for others to be sent with.
            keep_places: remember where each record is written; for few of them.
        """
        from confluent_kafka import Producer

        self._settings = connection.settings
        self._sent = 0
        self._failures = Failures()
        self._refused: list[tuple[int, str]] = []
        """Number and cause of each record that was not taken."""
        self.places: list[tuple[int, int]] = []
        """Partition and offset of the acknowledged records, if they are kept."""
        self._producer: Any = Producer(
            client_options(
                connection.settings,
                self._failures,
                **{
                    "enable.idempotence": True,
                    # The contract's partitioner; librdkafka's own default is another one.
                    "partitioner": "murmur2_random",
                    "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
                    "delivery.report.only.error": not keep_places,
                    "message.max.bytes": BATCH_BYTES_MAX,
                    "batch.size": 1024 * 1024,
                    "linger.ms": linger_ms,
                    "queue.buffering.max.kbytes": 256 * 1024,
                },
            )
        )

    @property
    def has_failed(self) -> bool:
        """Whether a record was not taken, as far as is known now."""
        self._producer.poll(0)
        return bool(self._refused)

    def send(self, topic: str, message: Any) -> None:
        """Send a message to where it belongs."""
        self.send_value(topic, encode(message), place(TOPIC_BY_NAME[topic], message))

    def send_value(self, topic: str, value: bytes | None, target: Place, number: int = 0) -> None:
        """Hand a record over, which is on its way a moment later; waits while the queue is full.

        `number` names the record if it fails; 0: its number among those sent.
        """
        self._sent += 1
        record: dict[str, Any] = {"key": target.key}
        if target.partition is not None:
            record["partition"] = target.partition
        if target.timestamp_ms is not None:
            record["timestamp"] = target.timestamp_ms
        report = partial(self._note, number or self._sent)
        while True:
            try:
                self._producer.produce(topic, value, on_delivery=report, **record)
            except BufferError:
                # Full of records in flight; each leaves it, acknowledged or timed out.
                self._producer.poll(0.05)
            else:
                return

    def flush(self, unit: str = "record") -> None:
        """Wait until all is acknowledged.

        Args:
            unit: what the numbers of records count, for the error.

        Raises:
            BrokerUnavailable: something is not; it says from which number on.
        """
        self._producer.flush(2 * DELIVERY_TIMEOUT_MS / 1000)
        lost = len(self._refused) + len(self._producer)
        if not lost:
            return
        why, first = "no acknowledgement", ""
        if self._refused:
            why = self._refused[0][1]
            first = f", from {unit} {min(number for number, _ in self._refused)} on"
        explained = self._failures.explain(self._settings, DELIVERY_TIMEOUT_MS / 1000)
        raise BrokerUnavailable(
            f"{lost} of {self._sent} records were not acknowledged{first} ({why}); the others were. "
            f"{explained}"
        )

    def drop(self) -> None:
        """Give up what is still in the queue."""
        self._producer.purge()
        self._producer.poll(0)

    def _note(self, number: int, error: Any, record: Any) -> None:
        if error is not None:
            self._refused.append((number, error.str()))
        else:
            self.places.append((record.partition(), record.offset()))
