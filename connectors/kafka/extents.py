"""Extents of partitions: the number of a topic's partitions, and their first and next offsets.

Commands use the admin client, which is connected already and names a partition without a leader. A worker
uses a reader (`Brokers`), which does not block its event loop.
"""

import asyncio
import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from confluent_kafka import OFFSET_INVALID, KafkaException, TopicPartition
from confluent_kafka.admin import OffsetSpec

from connectors.kafka.client import BrokerUnavailable, Connection
from connectors.kafka.reader import Partition, PartitionReader
from schemas.settings.connection import KafkaSettings

logger = logging.getLogger(__name__)

#: Timeout of requests of a worker, in seconds.
ANSWER_S = 5.0
#: How long partitions may have no leader, in seconds: many new topics on a busy broker take long.
_LEADERS_TIMEOUT_S = 30.0
#: Errors for a partition whose leader is being elected, or has just moved.
_LEADER_ERRORS = frozenset(
    (
        "FENCED_LEADER_EPOCH",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "REPLICA_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_OR_PART",
        # librdkafka's error if it knows no leader.
        "_NOENT",
    )
)


@dataclass(frozen=True, slots=True)
class Extent:
    """First and next offset of a partition."""

    partition: int
    first_offset: int
    next_offset: int
    """Offset of the next record; the difference is the maximum number of records."""


def count_partitions(connection: Connection, topic: str) -> int:
    """Return the number of partitions. Raises BrokerUnavailable if the topic does not exist."""
    topics = connection.read_metadata().topics
    if topic not in topics or topics[topic].error is not None:
        raise BrokerUnavailable(
            f"topic {topic} does not exist at {','.join(connection.settings.servers())}; create all "
            "topics with `loadstream topic create`"
        )
    return len(topics[topic].partitions)


def check_partitions(connection: Connection, topic: str) -> None:
    """Raise BrokerUnavailable if the number of partitions differs from the settings."""
    count, expected = count_partitions(connection, topic), connection.settings.partitions
    if count != expected:
        raise BrokerUnavailable(
            f"topic {topic} has {count} partitions; LOADSTREAM_KAFKA_PARTITIONS is {expected}: set it "
            f"to {count}"
        )


def read_topic_extents(connection: Connection, topic: str) -> tuple[Extent, ...]:
    """Return the extent of every partition.

    Raises BrokerUnavailable if the topic does not exist.
    """
    return read_extents(connection, {topic: count_partitions(connection, topic)})[topic]


def extent_of(connection: Connection, topic: str, partition: int) -> Extent:
    """Return the extent of one partition. Raises BrokerUnavailable."""
    return _read_spans(connection, [(topic, partition)])[topic, partition]


def find_offsets_since(connection: Connection, topic: str, count: int, since_ms: int) -> list[int]:
    """Return by partition the offset of the first record of `since_ms` or later; -1: none."""
    partitions = [(topic, number) for number in range(count)]
    offsets = _read_offsets(connection, partitions, OffsetSpec.for_timestamp(since_ms))
    return [offsets[partition] for partition in partitions]


def read_extents(
    connection: Connection, topics: Mapping[str, int]
) -> dict[str, tuple[Extent, ...]]:
    """Return the extent of every partition of the topics; `topics` has the number of partitions.

    Waits half a minute for partitions without a leader. Raises BrokerUnavailable.
    """
    partitions = [(topic, number) for topic, count in topics.items() for number in range(count)]
    spans = _read_spans(connection, partitions)
    return {
        topic: tuple(spans[topic, number] for number in range(count))
        for topic, count in topics.items()
    }


def _read_spans(
    connection: Connection, partitions: list[tuple[str, int]]
) -> dict[tuple[str, int], Extent]:
    if not partitions:
        return {}
    first, following = (
        _read_offsets(connection, partitions, spec)
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    return {
        (topic, number): Extent(number, first[topic, number], following[topic, number])
        for topic, number in partitions
    }


def _read_offsets(
    connection: Connection, partitions: list[tuple[str, int]], spec: Any
) -> dict[tuple[str, int], int]:
    """Return one offset per partition; waits for partitions whose leader is being elected."""
    offsets: dict[tuple[str, int], int] = {}
    timeout_s = connection.settings.connect_timeout_s
    deadline = time.monotonic() + _LEADERS_TIMEOUT_S
    while True:
        missing = {TopicPartition(*key): spec for key in partitions if key not in offsets}
        if not missing:
            return offsets
        answers = connection.admin.list_offsets(missing, request_timeout=timeout_s)
        for partition, answer in answers.items():
            try:
                offset = answer.result().offset
            except KafkaException as error:
                waits = error.args[0].name() in _LEADER_ERRORS and time.monotonic() < deadline
                if not waits:
                    name = f"{partition.topic} partition {partition.partition}"
                    raise connection.refusal("report the offsets of", name, error) from None
            else:
                if offset == OFFSET_INVALID:  # librdkafka's value for no answer in time
                    raise connection.silent(timeout_s)
                offsets[partition.topic, partition.partition] = offset
        if len(offsets) < len(partitions):
            time.sleep(0.05)
            # librdkafka remembers a missing topic for half a minute unless its metadata is requested.
            connection.read_metadata()


class Brokers:
    """Reads the extents of partitions asynchronously, over its own connection.

    It connects at the first request, and again after a request without an answer.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._reader: PartitionReader | None = None
        self._silent = False

    async def spans(self, partitions: set[Partition]) -> dict[Partition, tuple[int, int]] | None:
        """Return first and next offset of each partition; None: no broker answered in time."""
        try:
            async with asyncio.timeout(ANSWER_S):
                if self._reader is None:
                    self._reader = PartitionReader(self._settings, {})
                    await self._reader.start()
                spans = await self._reader.extents(sorted(partitions))
        except Exception as error:
            if not self._silent:
                reason = str(error) or type(error).__name__
                logger.warning("the brokers do not answer: %s", reason)
            self._silent = True
            await self.leave()
            return None
        if self._silent:
            logger.warning("the brokers answer again")
        self._silent = False
        return spans

    async def leave(self) -> None:
        """Disconnect; the next request connects again."""
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.stop()
