"""Produce JSON lines to a topic. Every line is first validated in the same way as by its consumer.

A line is sent unchanged, including unknown fields, so that newer producers lose nothing. Unknown
fields are reported, because most unknown fields are mistyped. Key, partition and timestamp come from the
message (`schemas.topics.catalog`). A refused line is reported with its number and not sent. Delivery
is acknowledged by all replicas. Retries cause no duplicates; producing a file twice does.
"""

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, BinaryIO, Literal

from connectors.kafka.client import Connection
from connectors.kafka.extents import count_partitions
from connectors.kafka.producer import OutgoingRecord, Sender
from schemas.base.limits import VALUE_BYTES_MAX
from schemas.base.refusals import Refusal
from schemas.topics.catalog import TOPIC_BY_NAME, RecordPlace, Topic, place_record
from schemas.topics.codec import decode, encode
from schemas.topics.unknown_fields import UnknownField, find_unknown_fields

#: Most bytes read at a time.
_PIECE_BYTES = 256 * 1024


@dataclass(slots=True)
class ProduceSummary:
    lines: int = 0
    """Number of lines that are not empty."""
    produced: int = 0
    """Number of acknowledged records."""
    value_bytes: int = 0
    rejected: int = 0
    expired: int = 0
    """Number of records older than the retention of the topic."""
    seconds: float = 0.0
    stopped: bool = False
    """True: a line was refused, and the later lines were not read."""
    unknown: dict[UnknownField, int] = field(default_factory=dict)
    """Number of lines per unknown field."""


def produce_lines(
    connection: Connection,
    topic: Topic,
    stream: BinaryIO,
    *,
    read: Callable[[str, bytes], Any | Refusal] = decode,
    on_error: Literal["stop", "skip"] = "stop",
    on_rejection: Callable[[int, str], None] = lambda line, reason: None,
) -> ProduceSummary:
    """Send the lines of a stream and wait until all are acknowledged.

    `read` validates a line; `on_rejection` gets number and reason of a refused line. Raises
    BrokerUnavailable if the topic does not exist, or if a line is not acknowledged within 30 s.
    """
    partitions = count_partitions(connection, topic.name)
    summary = ProduceSummary()
    began = time.monotonic()
    oldest_ms = 0 if topic.compacted else time.time_ns() // 1_000_000 - topic.retention_ms
    with Sender(connection) as sender:
        for lines in read_lines(stream):
            records: list[OutgoingRecord] = []
            for number, line in lines:
                value = line.strip()
                if not value:
                    continue
                summary.lines += 1
                if len(line) > VALUE_BYTES_MAX:
                    reason = f"the line is too long; expected at most {VALUE_BYTES_MAX} bytes"
                    target: RecordPlace | Refusal = Refusal("limit", reason)
                else:
                    target = _target(topic, value, partitions, read)
                if isinstance(target, Refusal):
                    summary.rejected += 1
                    on_rejection(number, target.reason)
                    if on_error == "stop":
                        summary.stopped = True
                        break
                    continue
                for unknown in find_unknown_fields(topic.name, value):
                    summary.unknown[unknown] = summary.unknown.get(unknown, 0) + 1
                records.append(OutgoingRecord(topic.name, value, target, number))
                summary.value_bytes += len(value)
                summary.expired += (
                    target.timestamp_ms is not None and target.timestamp_ms < oldest_ms
                )
            summary.produced += len(sender.send_records(records))
            if summary.stopped or sender.has_failed:
                break
        sender.flush("line")
    summary.seconds = time.monotonic() - began
    return summary


def produce_messages(
    connection: Connection, topic: str, messages: Iterable[Any]
) -> tuple[list[tuple[int, int]], list[str]]:
    """Send messages; return partition and offset of each, and the reasons of refusals.

    Raises BrokerUnavailable.
    """
    partitions = count_partitions(connection, topic)
    records, refused = [], []
    for value in map(encode, messages):
        target = _target(TOPIC_BY_NAME[topic], value, partitions, decode)
        if isinstance(target, Refusal):
            refused.append(target.reason)
        else:
            records.append(OutgoingRecord(topic, value, target))
    with Sender(connection) as sender:
        return sender.deliver(records), refused


def read_lines(stream: BinaryIO) -> Iterator[list[tuple[int, bytes]]]:
    """Yield lines with their numbers from 1, as many at a time as the stream has ready.

    Keeps only the beginning of a line that is too long, because a stream without line breaks must not fill the
    memory.
    """
    number, unfinished = 0, b""
    while piece := stream.read1(_PIECE_BYTES):  # type: ignore[attr-defined]
        *lines, unfinished = (unfinished + piece).split(b"\n")
        unfinished = unfinished[: VALUE_BYTES_MAX + 1]
        yield list(enumerate(lines, number + 1))
        number += len(lines)
    if unfinished:
        yield [(number + 1, unfinished)]


def _target(
    topic: Topic, value: bytes, partitions: int, read: Callable[[str, bytes], Any | Refusal]
) -> RecordPlace | Refusal:
    """Return key and partition of the record, or why it is refused."""
    message = read(topic.name, value)
    if isinstance(message, Refusal):
        return message
    target = place_record(topic, message)
    if target.partition is not None and target.partition >= partitions:
        return Refusal(
            "misplaced",
            f"partition: found {target.partition}; expected 0 to {partitions - 1}",
        )
    return target
