"""What the partitions of topics hold: how many there are, and from which offset to which."""

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

#: How long an answer to a worker's question is waited for, in seconds.
ANSWER_S = 5.0
_LEADER_TIMEOUT_S = 30.0
#: What a broker answers about a partition whose leader is about to be chosen, or has just moved.
_LEADER_ERRORS = frozenset(
    (
        "FENCED_LEADER_EPOCH",
        "LEADER_NOT_AVAILABLE",
        "NOT_LEADER_FOR_PARTITION",
        "REPLICA_NOT_AVAILABLE",
        "UNKNOWN_LEADER_EPOCH",
        "UNKNOWN_TOPIC_OR_PART",
        # librdkafka's own word for having found no leader at all.
        "_NOENT",
    )
)


@dataclass(frozen=True, slots=True)
class Extent:
    """What one partition holds."""

    partition: int
    first_offset: int
    next_offset: int
    """Offset that the next record gets; the difference is the most records that there can be."""


def partitions_of(connection: Connection, topic: str) -> int:
    """How many a topic has. Raises BrokerUnavailable if it does not exist."""
    topics = connection.ask(lambda t: connection.admin.list_topics(timeout=t)).topics
    if topic not in topics or topics[topic].error is not None:
        raise BrokerUnavailable(
            f"topic {topic} does not exist at {','.join(connection.settings.servers())}; make all "
            "topics with `loadstream topic create`"
        )
    return len(topics[topic].partitions)


def check_partitions(connection: Connection, topic: str) -> None:
    """Raises BrokerUnavailable where a topic has another number of partitions than the settings say."""
    found, said = partitions_of(connection, topic), connection.settings.partitions
    if found != said:
        raise BrokerUnavailable(
            f"topic {topic} has {found} partitions; LOADSTREAM_KAFKA_PARTITIONS says {said}: set it "
            f"to {found}"
        )


def extents_of(connection: Connection, topic: str) -> tuple[Extent, ...]:
    """First and next offset of every partition. Raises BrokerUnavailable if there is no such topic."""
    found = FoundTopic(topic, partitions_of(connection, topic), 0, None)
    return read_extents(connection, [found])[topic]


def extent_of(connection: Connection, topic: str, partition: int) -> Extent:
    """First and next offset of one partition. Raises BrokerUnavailable."""
    return _read_spans(connection, [(topic, partition)])[topic, partition]


def offsets_since(connection: Connection, topic: str, partitions: int, since_ms: int) -> list[int]:
    """First offset of each partition with a record so new; -1: it has none."""
    from confluent_kafka.admin import OffsetSpec

    places = [(topic, number) for number in range(partitions)]
    found = _read_offsets(connection, places, OffsetSpec.for_timestamp(since_ms))
    return [found[place] for place in places]


def read_extents(
    connection: Connection, topics: Iterable[FoundTopic]
) -> dict[str, tuple[Extent, ...]]:
    """First and next offset of every partition of the topics."""
    topics = list(topics)
    spans = _read_spans(connection, [(t.name, p) for t in topics for p in range(t.partitions)])
    return {
        topic.name: tuple(spans[topic.name, p] for p in range(topic.partitions)) for topic in topics
    }


def _read_spans(
    connection: Connection, places: list[tuple[str, int]]
) -> dict[tuple[str, int], Extent]:
    from confluent_kafka.admin import OffsetSpec

    if not places:
        return {}
    first, following = (
        _read_offsets(connection, places, spec)
        for spec in (OffsetSpec.earliest(), OffsetSpec.latest())
    )
    return {place: Extent(place[1], first[place], following[place]) for place in places}


def _read_offsets(
    connection: Connection, places: list[tuple[str, int]], spec: Any
) -> dict[tuple[str, int], int]:
    """One offset of each partition; a leader that is being chosen is waited for."""
    from confluent_kafka import OFFSET_INVALID, KafkaException, TopicPartition

    offsets: dict[tuple[str, int], int] = {}
    deadline = time.monotonic() + _LEADER_TIMEOUT_S
    while True:
        missing = {TopicPartition(*place): spec for place in places if place not in offsets}
        if not missing:
            return offsets
        timeout_s = connection.settings.connect_timeout_s
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
                if found == OFFSET_INVALID:  # librdkafka's word for no answer in time
                    raise connection.silent(timeout_s)
                offsets[place.topic, place.partition] = found
        if len(offsets) < len(places):
            time.sleep(0.05)
            # librdkafka takes a topic that was missing for missing still, for half a minute, unless
            # it hears otherwise.
            connection.ask(lambda t: connection.admin.list_topics(timeout=t))


class Brokers:
    """Asks the brokers where partitions begin and end, without blocking.

    It has its own connection, so that slow answers hold up no other work. It connects at the first
    question, and again after a question without an answer.
    """

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._reader: PartitionReader | None = None
        self._silent = False

    async def spans(self, places: set[Partition]) -> dict[Partition, tuple[int, int]] | None:
        """First offset and end of each partition; none: no broker has answered in time."""
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
        """Disconnect; the next question connects again."""
        reader, self._reader = self._reader, None
        if reader is not None:
            await reader.stop()
