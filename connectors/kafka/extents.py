"""Offsets of partitions: how many partitions a topic has, where they begin and end.

Commands use the admin client, which is connected already and names a partition without a leader. The worker
uses a reader (`Brokers`), so that it needs no second client library.
"""

import asyncio
import logging
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from connectors.kafka.client import BrokerUnavailable, Connection
from connectors.kafka.reader import Partition, PartitionReader
from connectors.kafka.topics import FoundTopic
from schemas.settings.connection import KafkaSettings

logger = logging.getLogger(__name__)

#: Timeout of requests of a worker, in seconds.
ANSWER_S = 5.0
#: Least timeout of a repeated request, in seconds.
_REPEAT_TIMEOUT_S = 2.0
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
    topics = connection.ask(lambda t: connection.admin.list_topics(timeout=t)).topics
    if topic not in topics or topics[topic].error is not None:
        raise BrokerUnavailable(
            f"topic {topic} does not exist at {','.join(connection.settings.servers())}; create all "
            "topics with `loadstream topic create`"
        )
    return len(topics[topic].partitions)


def check_partitions(connection: Connection, topic: str) -> None:
    """Raise BrokerUnavailable if the number of partitions differs from the settings."""
    found, expected = count_partitions(connection, topic), connection.settings.partitions
    if found != expected:
        raise BrokerUnavailable(
            f"topic {topic} has {found} partitions; LOADSTREAM_KAFKA_PARTITIONS is {expected}: set it "
            f"to {found}"
        )


def read_topic_extents(connection: Connection, topic: str) -> tuple[Extent, ...]:
    """Return the extent of every partition.

    Raises BrokerUnavailable if the topic does not exist.
    """
    found = FoundTopic(topic, count_partitions(connection, topic), 0, None)
    return read_extents(connection, [found])[topic]


def extent_of(connection: Connection, topic: str, partition: int) -> Extent:
    """Return the extent of one partition. Raises BrokerUnavailable."""
    return _read_spans(connection, [(topic, partition)])[topic, partition]


def find_offsets_since(
    connection: Connection, topic: str, partitions: int, since_ms: int
) -> list[int]:
    """Return the first offset of each partition with a record of this time or later; -1: none."""
    from confluent_kafka.admin import OffsetSpec

    places = [(topic, number) for number in range(partitions)]
    found = _read_offsets(connection, places, OffsetSpec.for_timestamp(since_ms))
    return [found[place] for place in places]


def read_extents(
    connection: Connection, topics: Iterable[FoundTopic], *, leaders_timeout_s: float | None = None
) -> dict[str, tuple[Extent, ...]]:
    """Return the extent of every partition of the topics.

    Waits `leaders_timeout_s` for partitions without a leader, by default `connect_timeout_s`. Raises
    BrokerUnavailable.
    """
    topics = list(topics)
    places = [(topic.name, number) for topic in topics for number in range(topic.partitions)]
    spans = _read_spans(connection, places, leaders_timeout_s)
    return {
        topic.name: tuple(spans[topic.name, p] for p in range(topic.partitions)) for topic in topics
    }


def _read_spans(
    connection: Connection,
    places: list[tuple[str, int]],
    leaders_timeout_s: float | None = None,
) -> dict[tuple[str, int], Extent]:
    from confluent_kafka.admin import OffsetSpec

    if not places:
        return {}
    first, following = (
        _read_offsets(connection, places, spec, leaders_timeout_s)
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    return {place: Extent(place[1], first[place], following[place]) for place in places}


def _read_offsets(
    connection: Connection,
    places: list[tuple[str, int]],
    spec: Any,
    leaders_timeout_s: float | None = None,
) -> dict[tuple[str, int], int]:
    """Return one offset per partition; waits for partitions whose leader is being elected.

    The first request may take `connect_timeout_s`, because a broker can be slow. Repeated requests end
    with the wait for leaders, so that a broker that hangs is reported after little more than that.
    """
    from confluent_kafka import OFFSET_INVALID, KafkaException, TopicPartition

    offsets: dict[tuple[str, int], int] = {}
    timeout_s = connection.settings.connect_timeout_s
    deadline = time.monotonic() + (timeout_s if leaders_timeout_s is None else leaders_timeout_s)
    while True:
        missing = {TopicPartition(*place): spec for place in places if place not in offsets}
        if not missing:
            return offsets
        answers = connection.admin.list_offsets(missing, request_timeout=timeout_s)
        for place, answer in answers.items():
            try:
                found = answer.result().offset
            except KafkaException as error:
                waits = error.args[0].name() in _LEADER_ERRORS and time.monotonic() < deadline
                if not waits:
                    what = f"{place.topic} partition {place.partition}"
                    raise connection.refusal("report the offsets of", what, error) from None
            else:
                if found == OFFSET_INVALID:  # librdkafka's value for no answer in time
                    raise connection.silent(timeout_s)
                offsets[place.topic, place.partition] = found
        if len(offsets) < len(places):
            time.sleep(0.05)
            left_s = max(_REPEAT_TIMEOUT_S, deadline - time.monotonic())
            timeout_s = min(left_s, connection.settings.connect_timeout_s)
            # librdkafka remembers a missing topic for half a minute unless its metadata is requested.
            connection.ask(lambda t: connection.admin.list_topics(timeout=t), timeout_s)


class Brokers:
    """Reads the extents of partitions asynchronously, over its own connection.

    It connects at the first request, and again after a request without an answer.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._reader: PartitionReader | None = None
        self._silent = False

    async def spans(self, places: set[Partition]) -> dict[Partition, tuple[int, int]] | None:
        """Return first and next offset of each partition; None: no broker answered in time."""
        try:
            async with asyncio.timeout(ANSWER_S):
                if self._reader is None:
                    self._reader = PartitionReader(self._settings, {})
                    await self._reader.start()
                spans = await self._reader.extents(sorted(places))
        except Exception as error:
            if not self._silent:
                why = str(error) or type(error).__name__
                logger.warning("the brokers do not answer: %s", why)
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
