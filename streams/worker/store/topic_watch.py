"""Watches whether the topics of a stage are those that the worker started with.

Every few seconds the brokers are asked for each topic that the stage reads or writes, its journal
and its changelogs. A topic that is missing, has another number of partitions or another id stops
the worker. When it starts again, `check_ids` says which partitions must be reset, if any: a topic
that was deleted and created again has the same name and another id, and its offsets mean other
records than those that a partition's state was built from.

Topics that take no writes, since too few of their replicas are in sync, are a notice: the worker is not
ready, and waits. A new start would not change that, so health does not ask for one meanwhile.

aiokafka knows no topic ids, so this goes through librdkafka, in a thread and over a connection of
its own. Brokers that have no ids (Kafka before 2.8, the embedded broker) say nothing of a topic
that was created again; only a partition that ends too early shows it (`check_ends`).
"""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from schemas.settings.connection import EMBEDDED_CLUSTER_ID_PREFIX, KafkaSettings
from schemas.topics.catalog import TOPICS
from streams.stage.records import reset_advice
from streams.worker.partitions import Partitions

logger = logging.getLogger(__name__)

#: Time between two checks, in seconds.
LOOK_S = 5.0
#: Longest wait for an answer of the brokers, in seconds.
ANSWER_S = 5.0
#: The id that a broker without topic ids returns.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


class TopicChanged(RuntimeError):
    """A topic is not what it was: the worker must not go on."""


def written_by(stage: str) -> list[str]:
    """Topics that a stage writes, but for its journal and tables."""
    return [topic.name for topic in TOPICS if topic.is_written_by(stage)]


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic that is there."""

    partitions: int
    topic_id: str = ""
    """As Kafka's tools print it; empty: unknown."""
    in_sync: int = 0
    """Fewest replicas in sync of a partition that lacks some; 0: all are in sync, or none."""
    is_short: bool = False
    """Whether a partition lacks replicas in sync."""


class TopicWatch:
    """Checks the topics of a stage: every few seconds in `run`, and once in `look`."""

    def __init__(
        self, kafka: KafkaSettings, state: Collection[str], others: Collection[str] = ()
    ) -> None:
        """`state` are the topics that the stage's state is made of; `others` are those it writes."""
        self._settings = kafka
        self._state = frozenset(state)
        self._names = sorted({*state, *others})
        self._admin: Any = None
        self._has_ids = True
        self._short: dict[str, tuple[int, int]] = {}
        """Replicas in sync, and those that writes need, of topics that take no writes."""
        self.ids: dict[str, str] = {}
        """Ids of the topics when they were first seen; topics with unknown ids are missing."""

    @property
    def state_ids(self) -> dict[str, str]:
        """Known ids of the topics that the state is made of."""
        return {name: topic_id for name, topic_id in self.ids.items() if name in self._state}

    async def run(self, partitions: Partitions) -> None:
        """Look again and again until cancelled; report what is wrong to the stage's notices.

        Raises:
            TopicChanged: a topic is not what it was.
        """
        while True:
            if await self.look(in_sync=True):
                partitions.notices.report("topics", self._find_problems())
            if self._short:
                partitions.writes_refused_at_s = time.monotonic()
            await asyncio.sleep(LOOK_S)

    def _find_problems(self) -> dict[str, str]:
        short = [
            f"{name} ({found} in sync, {needed} needed)"
            for name, (found, needed) in sorted(self._short.items())
        ]
        if not short:
            return {}
        return {
            "replicas in sync": f"topics take no writes, since too few replicas are in sync: {', '.join(short)}. "
            "The worker waits for the brokers that hold the others"
        }

    async def look(self, *, in_sync: bool = False) -> bool:
        """Look once; False: no broker has answered in time. `in_sync`: also for replicas, which takes longer.

        Raises:
            TopicChanged: a topic is not what it was.
        """
        try:
            found = await asyncio.to_thread(self._read)
            if in_sync:
                needed = await asyncio.to_thread(self._read_needed, found)
                self._short = {
                    name: (found[name].in_sync, count)
                    for name, count in needed.items()
                    if found[name].in_sync < count
                }
        except Exception as error:
            # The silence of brokers is reported by `Brokers`, which asks as often.
            logger.debug("the brokers do not tell which topics there are: %s", error)
            self._admin = None
            return False
        self.check(found)
        return True

    def check(self, found: Mapping[str, TopicFacts]) -> None:
        """Compare the topics with what they must be, and keep ids that are seen for the first time.

        Raises:
            TopicChanged: a topic is not what it was.
        """
        for name in self._names:
            facts, expected = found.get(name), self._settings.partitions
            if facts is None:
                raise TopicChanged(
                    f"topic {name} was deleted. Create it with `loadstream topic create`, and start the worker again"
                )
            if facts.topic_id and self.ids.setdefault(name, facts.topic_id) != facts.topic_id:
                raise TopicChanged(
                    f"topic {name} was deleted and created again. Start the worker again: it says what to do if "
                    "it needs what the topic held"
                )
            if facts.partitions != expected:
                raise TopicChanged(
                    f"topic {name} has {facts.partitions} partitions; expected {expected}: keys hash to other "
                    "partitions now. Stop its producers, delete it, create it with `loadstream topic create`, and "
                    "start the worker again"
                )

    def _read(self) -> dict[str, TopicFacts]:
        admin = self._connect()
        if self._has_ids:
            return self._describe_topics()
        topics = admin.list_topics(timeout=ANSWER_S).topics
        return {
            name: TopicFacts(len(topics[name].partitions))
            for name in self._names
            if name in topics and topics[name].error is None
        }

    def _connect(self) -> Any:
        if self._admin is None:
            from confluent_kafka.admin import AdminClient

            quiet = {"log_level": 0, "error_cb": lambda _: None}
            admin = AdminClient({**self._settings.librdkafka_options(), **quiet})
            cluster_id = str(admin.list_topics(timeout=ANSWER_S).cluster_id or "")
            # The embedded broker does not answer the question for ids.
            self._has_ids = not cluster_id.startswith(EMBEDDED_CLUSTER_ID_PREFIX)
            self._admin = admin
        return self._admin

    def _describe_topics(self) -> dict[str, TopicFacts]:
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        answers = self._admin.describe_topics(
            TopicCollection(self._names), request_timeout=ANSWER_S
        )
        found = {}
        for name, answer in answers.items():
            try:
                topic = answer.result(ANSWER_S + 1)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
                continue
            topic_id = str(topic.topic_id)
            missing = [each for each in topic.partitions if len(each.isr) < len(each.replicas)]
            found[name] = TopicFacts(
                len(topic.partitions),
                "" if topic_id == _NO_ID else topic_id,
                in_sync=min((len(each.isr) for each in missing), default=0),
                is_short=bool(missing),
            )
        return found

    def _read_needed(self, found: Mapping[str, TopicFacts]) -> dict[str, int]:
        """How many replicas must be in sync for a write to topics that lack some, as far as it is known."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource, ResourceType

        short = [name for name, facts in found.items() if facts.is_short]
        wanted = [ConfigResource(ResourceType.TOPIC, name) for name in short]
        needed = {}
        answers = self._admin.describe_configs(wanted, request_timeout=ANSWER_S) if wanted else {}
        for resource, answer in answers.items():
            try:
                needed[resource.name] = int(
                    answer.result(ANSWER_S + 1)["min.insync.replicas"].value
                )
            except (KafkaException, TimeoutError) as error:
                logger.debug("the settings of topic %s are unknown: %s", resource.name, error)
        if len(needed) < len(short):
            # The client goes on asking a broker that has died; another one asks those that live.
            self._admin = None
        return needed


def check_ids(before: Mapping[str, str], now: Mapping[str, str], partitions: int) -> None:
    """Compare the ids that a partition's rows name with those of the topics now.

    Args:
        before: ids by topic, as far as they were known.
        now: likewise.
        partitions: the number of partitions, all of which have lost the topic.

    Raises:
        TopicChanged: a topic has another id.
    """
    for name, was in sorted(before.items()):
        if now.get(name, was) != was:
            every = " ".join(map(str, range(partitions)))
            raise TopicChanged(
                f"topic {name} was deleted and created again, so its offsets mean other records than "
                f"those that were applied. {reset_advice(every)}"
            )


def check_ends(positions: Mapping[Any, int], ends: Mapping[Any, int | None]) -> None:
    """Compare what was applied with where the inputs end.

    Args:
        positions: offset applied last, by topic and partition; -1: none.
        ends: offset after the last record there, asked for after the positions were; none: the
            partition is empty.

    Raises:
        TopicChanged: an input ends before what was applied of it.
    """
    for (topic, partition), position in positions.items():
        end = ends.get((topic, partition)) or 0
        if position >= end:
            raise TopicChanged(
                f"topic {topic}, partition {partition} ends at offset {end}, but was applied up to "
                f"{position}: it was deleted and created again, or brokers have lost its end. "
                f"{reset_advice(partition)}"
            )
