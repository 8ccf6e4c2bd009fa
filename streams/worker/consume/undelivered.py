"""Notices records that were never delivered and that nothing follows.

Faust was seen to drop what it had fetched when a rebalance or a recovery came in between. If a
further record of the partition comes, the gap shows and is read (`intake`). If none comes, as in
a quiet cluster, the gap would never be noticed. So every few seconds the ends of the partitions are
compared with what was applied, and what has not moved between looks is read. A partition that ends
before what was applied of it stops the worker.
"""

import asyncio
import logging
import time

from connectors.kafka.extents import Brokers
from schemas.settings.connection import KafkaSettings
from streams.worker.consume.intake import Intake
from streams.worker.store.topic_watch import check_ends

logger = logging.getLogger(__name__)

#: Time between two looks, in seconds.
LOOK_S = 5.0
#: This many looks in a row must have found a partition at the same place before its end.
LOOKS = 2
#: Longest time that reading takes at once, in seconds.
READ_MAX_S = 60.0

#: Topic and partition.
Place = tuple[str, int]


class UndeliveredWatch:
    """Looks while it runs."""

    def __init__(self, kafka: KafkaSettings, intake: Intake) -> None:
        self.brokers = Brokers(kafka)
        self._intake = intake
        self._partitions = intake.partitions
        self._stood: dict[Place, tuple[int, int]] = {}
        """Where a partition stood before its end, and at how many looks in a row."""

    async def run(self) -> None:
        """Look again and again, until cancelled."""
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                if self._partitions.recovered:
                    await self.look()
        finally:
            await self.brokers.leave()

    async def look(self) -> None:
        """Compare once, and read what has not come for too long.

        Raises:
            TopicChanged: a partition ends before what was applied of it.
        """
        partitions = self._partitions
        generation = partitions.generation
        places = {(topic, number) for topic in partitions.topics for number in partitions.stages}
        before = {place: partitions.position(*place) for place in places}
        spans = await self.brokers.spans(places)
        if spans is None:
            return
        check_ends(before, {place: end for place, (_, end) in spans.items()})
        if partitions.generation != generation:
            return
        following = {place: partitions.following(*place) for place in sorted(places)}
        behind = {place: at for place, at in following.items() if at < spans[place][1]}
        self._stood = {place: self._looks(place, at) for place, at in behind.items()}
        for place in behind:
            if self._stood[place][1] >= LOOKS:
                await self._read(generation, place, spans[place][1])

    def _looks(self, place: Place, following: int) -> tuple[int, int]:
        before, looks = self._stood.get(place, (-1, 0))
        return following, looks + 1 if before == following else 1

    async def _read(self, generation: int, place: Place, end: int) -> None:
        topic, partition = place
        if self._partitions.generation != generation:
            return
        position = self._partitions.position(topic, partition)
        until_s = time.monotonic() + READ_MAX_S
        if not await self._intake.apply_up_to(
            topic, partition, end, until_s, generation, undelivered=True
        ):
            return
        # Else its last offsets hold no record, as where a producer has ended a transaction.
        if self._partitions.position(topic, partition) > position:
            logger.warning(
                "%s, partition %d: read from offset %d to %d, which were not delivered",
                topic,
                partition,
                position + 1,
                end - 1,
            )
