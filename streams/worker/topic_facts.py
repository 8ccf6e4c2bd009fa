"""Which topics there are, asked of the brokers: their ids and how many partitions they have.

A topic that was deleted and made again has the same name and another id; nothing else distinguishes
the two. aiokafka knows no ids, so this goes through librdkafka, in a thread, over a connection of
its own. Where a broker has no ids (Kafka before 2.8; the embedded broker, which does not answer the
question) they are unknown, which the log says once: then only partitions that end before what was
applied of them show that a topic was made again.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from schemas.connection import EMBEDDED_CLUSTER_ID_PREFIX, KafkaSettings

logger = logging.getLogger(__name__)

#: How long an answer of the brokers is waited for, in seconds.
ANSWER_S = 5.0
#: The id that a broker gives which has none.
_NO_ID = "AAAAAAAAAAAAAAAAAAAAAA"


@dataclass(frozen=True, slots=True)
class TopicFacts:
    """A topic that is there."""

    partitions: int
    topic_id: str = ""
    """As Kafka's tools print it; empty: unknown."""


class TopicReader:
    """Connects with the first question; librdkafka connects anew by itself."""

    def __init__(self, settings: KafkaSettings) -> None:
        self._settings = settings
        self._admin: Any = None
        self._without_ids = False

    async def read(self, names: Sequence[str]) -> dict[str, TopicFacts] | None:
        """Those of the topics that there are; none: no broker has answered in time."""
        try:
            return await asyncio.to_thread(self._read, sorted(names))
        except Exception as error:
            # The silence of brokers is reported by `Brokers`, which asks as often.
            logger.debug("the brokers do not tell which topics there are: %s", error)
            return None

    def _read(self, names: Sequence[str]) -> dict[str, TopicFacts]:
        admin = self._connected()
        if not self._without_ids:
            found = self._described(names)
            self._without_ids = bool(found) and not any(each.topic_id for each in found.values())
            if not self._without_ids:
                return found
            logger.warning("%s", _NO_IDS)
        topics = admin.list_topics(timeout=ANSWER_S).topics
        return {
            name: TopicFacts(len(topics[name].partitions))
            for name in names
            if name in topics and topics[name].error is None
        }

    def _connected(self) -> Any:
        if self._admin is None:
            from confluent_kafka.admin import AdminClient

            quiet = {"log_level": 0, "error_cb": lambda _: None}
            admin = AdminClient({**self._settings.librdkafka_options(), **quiet})
            cluster_id = str(admin.list_topics(timeout=ANSWER_S).cluster_id or "")
            self._without_ids = cluster_id.startswith(EMBEDDED_CLUSTER_ID_PREFIX)
            if self._without_ids:
                logger.warning("%s", _NO_IDS)
            self._admin = admin
        return self._admin

    def _described(self, names: Sequence[str]) -> dict[str, TopicFacts]:
        from confluent_kafka import KafkaError, KafkaException, TopicCollection

        answers = self._admin.describe_topics(
            TopicCollection(list(names)), request_timeout=ANSWER_S
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
            found[name] = TopicFacts(len(topic.partitions), "" if topic_id == _NO_ID else topic_id)
        return found


_NO_IDS = (
    "this broker has no topic ids: a topic that is deleted and made again is noticed only where it ends before "
    "what was applied of it"
)
