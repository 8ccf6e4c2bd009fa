"""Which topic an offset is of: a topic that was deleted and made again has other records under the
same offsets.

A stage knows the ids of the topics that its positions are of, since the first record that it read
of each named it. Here they are held against the ids that the brokers tell: a position of a topic
that is gone counts for nothing, and the first record of the one that has its name now says so to
the stage, and through the journal to a replay.
"""

import logging
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from streams.stage.records import InputRecord, Stage

logger = logging.getLogger(__name__)


class TopicIdentity:
    """The inputs of a stage as they are now."""

    def __init__(self, topics: Collection[str], ids: Mapping[str, str]) -> None:
        """`ids` are those of the topics now, as far as they are known; they may come later."""
        self._topics = frozenset(topics)
        self._ids = ids

    def position(self, stage: Stage, topic: str) -> int:
        """Offset applied last of a topic as it is now; -1: none."""
        return -1 if self._made_again(stage, topic) else stage.positions.get(topic, -1)

    def marked(self, stage: Stage, records: Sequence[InputRecord]) -> Sequence[InputRecord]:
        """The records, the first of each topic that the stage does not know yet with the topic's
        id."""
        known = stage.topic_ids
        unknown = {
            topic: topic_id
            for topic, topic_id in self._ids.items()
            if topic in self._topics and known.get(topic) != topic_id
        }
        if not unknown:
            return records
        return [
            replace(record, topic_id=unknown.pop(record.topic))
            if record.topic in unknown
            else record
            for record in records
        ]

    def tell(self, stage: Stage, partition: int) -> None:
        """Log which topics a partition reads anew."""
        for topic in sorted(self._topics):
            if self._made_again(stage, topic):
                logger.warning(
                    "topic %s was deleted and made again: partition %d reads it from its first record on",
                    topic,
                    partition,
                )

    def _made_again(self, stage: Stage, topic: str) -> bool:
        """Whether the stage's position is of a topic that is gone."""
        now = self._ids.get(topic)
        return now is not None and stage.topic_ids.get(topic, now) != now
