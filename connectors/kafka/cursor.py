"""One partition read forward once, as far as is asked for each time, without a consumer group.

Memory is bounded by what librdkafka fetches ahead. Offsets that hold nothing are passed over: whoever
misses a record sees it by the offsets that are there.
"""

import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from connectors.kafka.admin import find_topics, read_extents
from connectors.kafka.client import BrokerUnavailable, Connection, Failures, client_options

_POLL_S = 0.25
_RECORDS_PER_POLL = 1_000
#: What librdkafka may fetch ahead for one partition, in KiB.
_AHEAD_KIB = 4_096


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """One record as it stands in its partition."""

    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int
    """-1: it has none."""


class Cursor:
    """Reads a partition from its first record on, or from an offset; `close` it afterwards."""

    def __init__(
        self, connection: Connection, topic: str, partition: int, first_offset: int = 0
    ) -> None:
        from confluent_kafka import Consumer

        self._connection = connection
        self._topic = topic
        self._partition = partition
        self._first_offset = first_offset
        self._failures = Failures()
        self._ahead: deque[StoredRecord] = deque()
        self._ended = False
        self._consumer = Consumer(
            client_options(
                connection.settings,
                self._failures,
                **{
                    # librdkafka wants a group; without commits and subscriptions it is never joined.
                    "group.id": "loadstream-cursor",
                    "enable.auto.commit": False,
                    "auto.offset.reset": "error",
                    "enable.partition.eof": True,
                    "queued.max.messages.kbytes": _AHEAD_KIB,
                },
            )
        )
        self._assign()

    def close(self) -> None:
        """Let go of the connections."""
        self._consumer.close()

    def through(self, last_offset: int) -> Iterator[StoredRecord]:
        """Records after those given before, up to an offset that belongs to them.

        Fewer where the partition ends before. Raises BrokerUnavailable where nobody answers.
        """
        while True:
            if not self._ahead and not self._ended:
                self._fetch()
            if not self._ahead or self._ahead[0].offset > last_offset:
                return
            record = self._ahead.popleft()
            yield record
            # To see that nothing more comes would take another answer of the broker.
            if record.offset == last_offset:
                return

    def _fetch(self) -> None:
        """Wait for records, or for the end of the partition."""
        limit_s = 3 * self._connection.settings.connect_timeout_s
        began = time.monotonic()
        while not self._ahead and not self._ended:
            for message in self._consumer.consume(_RECORDS_PER_POLL, timeout=_POLL_S):
                self._take(message)
            if time.monotonic() - began > limit_s and not self._ahead:
                raise BrokerUnavailable(self._failures.explain(self._connection.settings, limit_s))

    def _take(self, message: Any) -> None:
        error = message.error()
        if error is None:
            _, timestamp_ms = message.timestamp()
            self._ahead.append(
                StoredRecord(message.offset(), message.key(), message.value(), timestamp_ms)
            )
        elif error.name() == "_PARTITION_EOF":
            self._ended = True
        elif error.name() == "_AUTO_OFFSET_RESET":
            self._assign()  # records went while they were read; what is left comes next
        else:
            raise BrokerUnavailable(f"{self._topic}: {error.str()}")

    def _assign(self) -> None:
        """Begin at the first record that there is, but not before the offset that was asked for."""
        from confluent_kafka import TopicPartition

        found = find_topics(self._connection, [self._topic])
        extent = read_extents(self._connection, found.values())[self._topic][self._partition]
        # A partition in error takes no other position until it is given anew.
        self._consumer.unassign()
        begin = max(self._first_offset, extent.first_offset)
        self._consumer.assign([TopicPartition(self._topic, self._partition, begin)])
