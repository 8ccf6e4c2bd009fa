"""JSON lines into a topic: every line is read as its consumer would read it, before it is sent.

A line goes as it stands, with unknown fields, so that a newer producer loses nothing; they are warned of,
since most are mistyped. Its key, partition and timestamp come from the message
(`connectors.kafka.records`). What is refused is reported with the
number of the line and never sent. Delivery is acknowledged by all replicas and idempotent: a retry of the
client doubles nothing, but producing a file twice does.
"""

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO, Literal

from connectors.kafka.admin import find_topics
from connectors.kafka.client import BrokerUnavailable, Connection, Failures, client_options
from connectors.kafka.records import Place, place
from schemas.codec import decode
from schemas.limits import BATCH_BYTES_MAX, VALUE_BYTES_MAX
from schemas.refusals import Refusal
from schemas.topics import Topic
from schemas.unknown_fields import UnknownField, unknown_fields

#: How long a record may wait for its acknowledgement before the broker counts as gone.
DELIVERY_TIMEOUT_MS = 30_000

_LINES_PER_REPORT = 500


@dataclass(frozen=True, slots=True)
class Rejection:
    """A line that was not sent."""

    line: int
    reason: str


@dataclass(slots=True)
class Summary:
    """The outcome of a run."""

    lines: int = 0
    """Lines that held something."""
    produced: int = 0
    """Records that the broker has acknowledged."""
    value_bytes: int = 0
    rejected: int = 0
    expired: int = 0
    """Records older than the topic keeps them."""
    seconds: float = 0.0
    stopped: bool = False
    """A line was refused, and the rest was not looked at."""
    unknown: dict[UnknownField, int] = field(default_factory=dict)
    """How many lines have a field that no reader knows."""


@dataclass(slots=True)
class _Delivery:
    """What the broker did not take; librdkafka reports failures only, and counting is left to us."""

    failed: list[tuple[int, Any]] = field(default_factory=list)

    def note(self, line: int, error: Any, _message: Any) -> None:
        """Take in the report on one record."""
        if error is not None:
            self.failed.append((line, error))


def produce_lines(
    connection: Connection,
    topic: Topic,
    stream: BinaryIO,
    *,
    read: Callable[[str, bytes], Any | Refusal] = decode,
    on_error: Literal["stop", "skip"] = "stop",
    on_rejection: Callable[[Rejection], None] = lambda rejection: None,
    on_progress: Callable[[int, int], None] = lambda lines, bytes_read: None,
) -> Summary:
    """Send the lines of a stream and wait until all are acknowledged.

    `read`: how a line is read, and why it is refused. `on_progress` gets lines and bytes read so far. Raises BrokerUnavailable where the topic does not
    exist or a record is not acknowledged within 30 s; its message says which lines were not.
    """
    partitions = _partitions(connection, topic)
    failures, delivery, summary = Failures(), _Delivery(), Summary()
    producer = _producer(connection, failures)
    began = time.monotonic()
    oldest_ms = 0 if topic.compacted else time.time_ns() // 1_000_000 - topic.retention_ms
    bytes_read = sent = 0
    for number, line in read_lines(stream):
        bytes_read += len(line)
        value = line.strip()
        if value:
            summary.lines += 1
            too_long = len(line) > VALUE_BYTES_MAX + 1
            target = _too_long() if too_long else _target(topic, value, partitions, read)
            if isinstance(target, Refusal):
                summary.rejected += 1
                on_rejection(Rejection(number, target.reason))
                if on_error == "stop":
                    summary.stopped = True
                    break
            else:
                for unknown in unknown_fields(topic.name, value):
                    summary.unknown[unknown] = summary.unknown.get(unknown, 0) + 1
                _send(producer, topic.name, value, target, partial(delivery.note, number))
                sent += 1
                summary.value_bytes += len(value)
                summary.expired += (
                    target.timestamp_ms is not None and target.timestamp_ms < oldest_ms
                )
        if number % _LINES_PER_REPORT == 0:
            producer.poll(0)
            on_progress(number, bytes_read)
            if delivery.failed:
                break
    producer.flush(2 * DELIVERY_TIMEOUT_MS / 1000)
    on_progress(summary.lines, bytes_read)
    summary.seconds = time.monotonic() - began
    unsent = len(producer)
    if delivery.failed or unsent:
        raise BrokerUnavailable(_undelivered(connection, topic, delivery, failures, sent, unsent))
    summary.produced = sent
    return summary


def read_lines(stream: BinaryIO) -> Iterator[tuple[int, bytes]]:
    """Lines with their numbers from 1; of one that is too long for a record only the beginning.

    A stream without line ends could otherwise fill the memory.
    """
    number = 0
    while line := stream.readline(VALUE_BYTES_MAX + 2):
        number += 1
        yield number, line
        while line and not line.endswith(b"\n") and len(line) >= VALUE_BYTES_MAX:
            line = stream.readline(VALUE_BYTES_MAX + 2)


def _target(
    topic: Topic, value: bytes, partitions: int, read: Callable[[str, bytes], Any | Refusal]
) -> Place | Refusal:
    """Where a line belongs, or why it is refused."""
    message = read(topic.name, value)
    if isinstance(message, Refusal):
        return message
    target = place(topic, message)
    if target.partition is not None and target.partition >= partitions:
        return Refusal(
            "misplaced",
            f"partition: found {target.partition}; the topic has the partitions 0 to {partitions - 1}",
        )
    return target


def _too_long() -> Refusal:
    return Refusal("limit", f"the line has more than the {VALUE_BYTES_MAX} bytes allowed")


def _partitions(connection: Connection, topic: Topic) -> int:
    found = find_topics(connection, [topic.name]).get(topic.name)
    if found is None:
        servers = ",".join(connection.settings.servers())
        raise BrokerUnavailable(
            f"topic {topic.name} does not exist at {servers}; make all topics with "
            "`loadstream topics create`"
        )
    return found.partitions


def _producer(connection: Connection, failures: Failures) -> Any:
    from confluent_kafka import Producer

    return Producer(
        client_options(
            connection.settings,
            failures,
            **{
                "enable.idempotence": True,
                # The contract's partitioner; librdkafka's own default is another one.
                "partitioner": "murmur2_random",
                "delivery.timeout.ms": DELIVERY_TIMEOUT_MS,
                "delivery.report.only.error": True,
                "message.max.bytes": BATCH_BYTES_MAX,
                "batch.size": 1024 * 1024,
                "linger.ms": 20,
                "queue.buffering.max.kbytes": 256 * 1024,
            },
        )
    )


def _send(producer: Any, topic: str, value: bytes, target: Place, report: Any) -> None:
    more: dict[str, int] = {}
    if target.partition is not None:
        more["partition"] = target.partition
    if target.timestamp_ms is not None:
        more["timestamp"] = target.timestamp_ms
    while True:
        try:
            producer.produce(topic, value, key=target.key, on_delivery=report, **more)
        except BufferError:
            # The queue is full of records in flight; each leaves it, acknowledged or timed out.
            producer.poll(0.1)
        else:
            return


def _undelivered(
    connection: Connection,
    topic: Topic,
    delivery: _Delivery,
    failures: Failures,
    sent: int,
    unsent: int,
) -> str:
    lost = len(delivery.failed) + unsent
    why = delivery.failed[0][1].str() if delivery.failed else "no acknowledgement"
    first = f", from line {min(n for n, _ in delivery.failed)} on" if delivery.failed else ""
    return (
        f"{topic.name}: {lost} of {sent} records were not acknowledged{first} ({why}); the others "
        f"were. {failures.explain(connection.settings, DELIVERY_TIMEOUT_MS / 1000)}"
    )
