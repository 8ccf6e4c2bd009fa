"""Checks that the topics of a stage have not been changed or replaced.

Every few seconds `TopicWatch` requests all topics of the stage from the brokers: inputs, outputs, journal
and changelogs. If a topic is missing, or its id or number of partitions has changed, the worker stops. A
topic that was deleted and created again has another id and other records at the same offsets. At the next
start, `check_ids` tells which partitions must be reset.

If topics refuse writes, because too few replicas are in sync, this is reported as a problem: the worker
is not ready and waits.

aiokafka does not support topic ids, so this module uses librdkafka in a thread. The embedded broker has no ids,
so only `check_ends` can detect that a topic was created again: a partition ends too early.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from connectors.kafka.client import Failures, client_options
from schemas.settings.connection import EMBEDDED_CLUSTER_ID_PREFIX, KafkaSettings
from schemas.topics.catalog import TOPICS
from streams.stage.records import advise_reset
from streams.worker.partitions import Partitions

logger = logging.getLogger(__name__)

#: Time between two checks, in seconds.
CHECK_INTERVAL_S = 5.0
#: Timeout of a request, in seconds.
ANSWER_S = 5.0


class TopicChanged(RuntimeError):
    """A topic was changed or replaced: the worker must stop."""


def list_written_topics(stage: str) -> list[str]:
    """Return the topics that a stage writes, except changelogs."""
    return [topic.name for topic in TOPICS if topic.is_written_by(stage)]


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """An existing topic."""

    partitions: int
    topic_id: str = ""
    """The id as Kafka's tools print it; empty: unknown."""
    in_sync: int | None = None
    """Smallest number of replicas in sync among partitions with missing replicas; None: there are none."""


class TopicWatch:
    """Checks the topics of a stage."""

    def __init__(
        self, kafka: KafkaSettings, state: Collection[str], outputs: Collection[str] = ()
    ) -> None:
        """`state` are the topics that the stage's state depends on; `outputs` are further topics."""
        self._settings = kafka
        self._state = frozenset(state)
        self._names = sorted({*state, *outputs})
        self._admin: Any = None
        self._has_ids = True
        self._refusing: dict[str, tuple[int, int]] = {}
        """Present and required replicas in sync of topics that refuse writes."""
        self.ids: dict[str, str] = {}
        """Known ids of the topics."""

    @property
    def state_ids(self) -> dict[str, str]:
        """Known ids of the topics that the state depends on."""
        return {name: topic_id for name, topic_id in self.ids.items() if name in self._state}

    async def run(self, partitions: Partitions) -> None:
        """Check every `CHECK_INTERVAL_S` until cancelled, and report problems. Raises TopicChanged."""
        while True:
            if await self.check_once():
                partitions.problems.report("topics", self._find_problems())
            if self._refusing:
                partitions.writes_refused_at_s = time.monotonic()
            await asyncio.sleep(CHECK_INTERVAL_S)

    def _find_problems(self) -> dict[str, str]:
        topics = [
            f"{name} ({in_sync} in sync, {needed} needed)"
            for name, (in_sync, needed) in sorted(self._refusing.items())
        ]
        if not topics:
            return {}
        return {
            "replicas in sync": f"topics refuse writes, because too few replicas are in sync: {', '.join(topics)}. "
            "The worker waits for the other replicas"
        }

    async def check_once(self) -> bool:
        """Check once; return False if no broker answered in time. Raises TopicChanged."""
        try:
            topics = await asyncio.to_thread(self._read_topics)
            present = {
                name: facts.in_sync for name, facts in topics.items() if facts.in_sync is not None
            }
            needed = await asyncio.to_thread(self._read_required_replicas, present)
            self._refusing = {
                name: (present[name], count)
                for name, count in needed.items()
                if present[name] < count
            }
        except Exception as error:
            # `Brokers` reports that brokers do not answer.
            logger.debug("the brokers do not list the topics: %s", error)
            self._admin = None
            return False
        self.check(topics)
        return True

    def check(self, topics: Mapping[str, TopicFacts]) -> None:
        """Compare the topics with the expected state, and remember new ids. Raises TopicChanged."""
        for name in self._names:
            facts, expected = topics.get(name), self._settings.partitions
            if facts is None:
                raise TopicChanged(
                    f"topic {name} was deleted. Create it with `loadstream topic create`, and start the worker again"
                )
            if facts.topic_id and self.ids.setdefault(name, facts.topic_id) != facts.topic_id:
                raise TopicChanged(
                    f"topic {name} was deleted and created again. Start the worker again: its log then names the "
                    "partitions to reset"
                )
            if facts.partitions != expected:
                raise TopicChanged(
                    f"topic {name} has {facts.partitions} partitions; expected {expected}, because otherwise keys "
                    "hash to other partitions. Stop the producers of the topic, delete it, create it with `loadstream "
                    "topic create`, and start the worker again"
                )

    def _read_topics(self) -> dict[str, TopicFacts]:
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

            admin = AdminClient(client_options(self._settings, Failures()))
            cluster_id = str(admin.list_topics(timeout=ANSWER_S).cluster_id or "")
            # The embedded broker does not answer requests for ids.
            self._has_ids = not cluster_id.startswith(EMBEDDED_CLUSTER_ID_PREFIX)
            self._admin = admin
        return self._admin

    def _describe_topics(self) -> dict[str, TopicFacts]:
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        answers = self._admin.describe_topics(
            TopicCollection(self._names), request_timeout=ANSWER_S
        )
        topics = {}
        for name, answer in answers.items():
            try:
                topic = answer.result(ANSWER_S + 1)
            except KafkaException as error:
                if error.args[0].code() != KafkaError.UNKNOWN_TOPIC_OR_PART:
                    raise
                continue
            in_sync = [
                len(partition.isr)
                for partition in topic.partitions
                if len(partition.isr) < len(partition.replicas)
            ]
            topics[name] = TopicFacts(
                len(topic.partitions), str(topic.topic_id), min(in_sync, default=None)
            )
        return topics

    def _read_required_replicas(self, names: Collection[str]) -> dict[str, int]:
        """Return the required number of replicas in sync of topics, if known."""
        from confluent_kafka import KafkaException
        from confluent_kafka.admin import ConfigResource, ResourceType

        resources = [ConfigResource(ResourceType.TOPIC, name) for name in names]
        needed = {}
        answers = (
            self._admin.describe_configs(resources, request_timeout=ANSWER_S) if resources else {}
        )
        for resource, answer in answers.items():
            try:
                needed[resource.name] = int(
                    answer.result(ANSWER_S + 1)["min.insync.replicas"].value
                )
            except (KafkaException, TimeoutError) as error:
                logger.debug("the settings of topic %s are unknown: %s", resource.name, error)
        if len(needed) < len(names):
            # A client may continue to ask a dead broker; a new client asks other brokers.
            self._admin = None
        return needed


def check_ids(stored: Mapping[str, str], present: Mapping[str, str], partitions: int) -> None:
    """Compare the ids of topics in a partition's rows with the present ids. Raises TopicChanged."""
    for name, topic_id in sorted(stored.items()):
        if present.get(name, topic_id) != topic_id:
            all_partitions = " ".join(map(str, range(partitions)))
            raise TopicChanged(
                f"topic {name} was deleted and created again, so the stored offsets mean other records. "
                f"{advise_reset(all_partitions)}"
            )


def check_ends(positions: Mapping[Any, int], ends: Mapping[Any, int | None]) -> None:
    """Check that no input ends before its applied offset. Raises TopicChanged.

    `positions` has the last applied offsets by topic and partition (-1: none), `ends` the next offsets, read after
    the positions (None: the partition is empty).
    """
    for (topic, partition), position in positions.items():
        end = ends.get((topic, partition)) or 0
        if position >= end:
            raise TopicChanged(
                f"topic {topic}, partition {partition} ends at offset {end}, but was applied up to offset "
                f"{position}: the topic was created again, or brokers have lost records. "
                f"{advise_reset(partition)}"
            )
