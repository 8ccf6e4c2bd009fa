"""Receives messages for the demo.

All partitions are read from their beginning. Lost records and unreadable messages are errors, because
they would falsify the numbers of the demo.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any, Self

from connectors.kafka.client import Connection
from connectors.kafka.extents import read_topic_extents
from connectors.kafka.reader import Gap, Reader
from schemas.base.refusals import Refusal
from schemas.topics.codec import decode


class RecordLost(RuntimeError):
    """The broker has dropped a record, or a message cannot be read."""


class TopicClient:
    """Receives messages of topics; a context manager. Each call may raise BrokerUnavailable."""

    def __init__(self, connection: Connection, topics: Sequence[str]) -> None:
        starts = {
            (topic, extent.partition): 0
            for topic in topics
            for extent in read_topic_extents(connection, topic)
        }
        self._reader = Reader(connection, starts, fetch_wait_ms=20)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._reader.close()

    def receive(self, timeout_s: float) -> Iterator[Any]:
        """Yield messages as they arrive, for `timeout_s` seconds. Raises RecordLost."""
        deadline_s = time.monotonic() + timeout_s
        left_s = timeout_s
        while True:
            for record in self._reader.poll(max(0.0, left_s)):
                if isinstance(record, Gap):
                    raise RecordLost(str(record))
                message = decode(record.topic, record.value)
                if isinstance(message, Refusal):
                    position = f"{record.topic} partition {record.partition} offset {record.offset}"
                    raise RecordLost(f"{position}: {message.reason}")
                yield message
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return
