"""JSON lines into a topic: every line is read as its consumer would read it, before it is sent.

A line is sent unchanged, with unknown fields, so that a newer producer loses nothing; they are
warned of, since most are mistyped. Its key, partition and timestamp come from the message
(`schemas.topics.records`). A refused line is reported with its number and never sent. Delivery is acknowledged by all replicas and idempotent: a retry of the client doubles
nothing, but producing a file twice does.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal

from connectors.kafka.client import Connection
from connectors.kafka.extents import partitions_of
from connectors.kafka.producer import Sender
from schemas.base.limits import VALUE_BYTES_MAX
from schemas.base.refusals import Refusal
from schemas.topics.catalog import TOPIC_BY_NAME, Topic
from schemas.topics.codec import decode, encode
from schemas.topics.records import Place, place
from schemas.topics.unknown_fields import UnknownField, unknown_fields

_LINES_PER_REPORT = 500


@dataclass(frozen=True, slots=True)
class Rejection:
    """A line that was not sent."""

    line: int
    reason: str


@dataclass(slots=True)
class ProduceSummary:
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


def produce_lines(
    connection: Connection,
    topic: Topic,
    stream: BinaryIO,
    *,
    read: Callable[[str, bytes], Any | Refusal] = decode,
    on_error: Literal["stop", "skip"] = "stop",
    on_rejection: Callable[[Rejection], None] = lambda rejection: None,
    on_progress: Callable[[int, int], None] = lambda lines, bytes_read: None,
) -> ProduceSummary:
    """Send the lines of a stream and wait until all are acknowledged.

    `read`: how a line is read, and why it is refused. `on_progress` gets lines and bytes read so
    far. Raises BrokerUnavailable if the topic does not exist or a record is not acknowledged
    within 30 s; its message says which lines were not.
    """
    partitions = partitions_of(connection, topic.name)
    summary = ProduceSummary()
    began = time.monotonic()
    oldest_ms = 0 if topic.compacted else time.time_ns() // 1_000_000 - topic.retention_ms
    bytes_read = sent = 0
    with Sender(connection) as sender:
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
                    sender.send_value(topic.name, value, target, number)
                    sent += 1
                    summary.value_bytes += len(value)
                    summary.expired += (
                        target.timestamp_ms is not None and target.timestamp_ms < oldest_ms
                    )
            if number % _LINES_PER_REPORT == 0:
                on_progress(number, bytes_read)
                if sender.has_failed:
                    break
        sender.flush("line")
    on_progress(summary.lines, bytes_read)
    summary.seconds = time.monotonic() - began
    summary.produced = sent
    return summary


def produce_messages(
    connection: Connection, topic: str, messages: Iterable[Any]
) -> tuple[list[tuple[int, int]], list[str]]:
    """Send messages; answers with partition and offset of each, and with why others are refused.

    Raises BrokerUnavailable.
    """
    partitions, refused = partitions_of(connection, topic), []
    with Sender(connection, keep_places=True) as sender:
        for value in map(encode, messages):
            target = _target(TOPIC_BY_NAME[topic], value, partitions, decode)
            if isinstance(target, Refusal):
                refused.append(target.reason)
            else:
                sender.send_value(topic, value, target)
        sender.flush()
        return sender.places, refused


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
    """Where a record belongs, or why it is refused."""
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
