"""Records in the order of their offsets: repeated ones are dropped, and those that Faust left out
are read and put in front."""

import logging
from collections.abc import Awaitable, Callable, Collection
from contextlib import aclosing

from schemas.connection import KafkaSettings
from streams.stage.records import InputRecord
from streams.worker.reader import read_pieces

logger = logging.getLogger(__name__)


class Sequence:
    """Holds the records of a stage's partitions to the offsets applied last."""

    def __init__(
        self,
        settings: KafkaSettings,
        topics: Collection[str],
        *,
        position: Callable[[str, int], int],
        put: Callable[[int, list[InputRecord]], Awaitable[None]],
        healed: Callable[[str, int], None],
    ) -> None:
        """Make the sequence of a stage.

        Args:
            settings: how to reach Kafka.
            topics: inputs of the stage.
            position: offset applied last of a topic and partition; -1: none.
            put: applies records of a partition, and hands them on to be made durable.
            healed: is given a topic and how many records of it were read.
        """
        self._settings = settings
        self._topics = topics
        self._position = position
        self._put = put
        self._healed = healed

    async def fresh(self, partition: int, records: list[InputRecord]) -> list[InputRecord]:
        """The records without those applied before.

        Where Faust has passed some over, they are read and put through first, and what stands
        before them: however many they are, no more than a piece is in memory.
        """
        following = {topic: self._position(topic, partition) + 1 for topic in self._topics}
        fresh: list[InputRecord] = []
        for record in records:
            expected = following[record.topic]
            if record.offset < expected:
                continue
            if record.offset > expected:
                if fresh:
                    await self._put(partition, fresh)
                    fresh = []
                await self._heal(record.topic, partition, expected, record.offset)
            fresh.append(record)
            following[record.topic] = record.offset + 1
        return fresh

    async def _heal(self, topic: str, partition: int, first: int, end: int) -> None:
        """Put records through that were not delivered; an offset may hold nothing any more."""
        count = 0
        async with aclosing(read_pieces(self._settings, topic, partition, first, end)) as pieces:
            async for entries in pieces:
                records = [entry.as_input(topic, partition) for entry in entries]
                await self._put(partition, records)
                count += len(records)
        if count:
            what = "%s, partition %d: read %d records from offset %d that were not delivered"
            logger.warning(what, topic, partition, count, first)
            self._healed(topic, count)
