"""Notices records that were never delivered and that nothing follows.

Faust was seen to drop what it had fetched when a rebalance or a recovery came in between. If a
further record of the partition comes, the gap shows and is read (`sequence`). If none comes, as in
a quiet cluster, the gap would never be noticed. So every few seconds the ends of the partitions are
compared with what was applied, and what has not moved between looks is read. A partition that ends
before what was applied of it stops the worker.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping
from typing import Protocol

from schemas.connection import KafkaSettings
from streams.stage.records import Stage
from streams.worker.brokers import Brokers
from streams.worker.topic_identity import check_ends

logger = logging.getLogger(__name__)

#: Time between two looks, in seconds.
LOOK_S = 5.0
#: This many looks in a row must have found a partition at the same place before its end.
LOOKS = 2
#: Longest time that reading takes at once, in seconds.
READ_MAX_S = 60.0

#: Topic and partition.
Place = tuple[str, int]


class Watched(Protocol):
    """A stage's runner as it is looked at."""

    @property
    def topics(self) -> Collection[str]:
        """What it reads."""
        ...

    @property
    def stages(self) -> Mapping[int, Stage]:
        """The state of each partition."""
        ...

    @property
    def recovered(self) -> bool:
        """The partitions are assigned and their state is there."""
        ...

    @property
    def generation(self) -> int:
        """Another number once partitions were taken away."""
        ...

    def position(self, topic: str, partition: int) -> int:
        """Offset applied last of a topic; -1: none."""
        ...

    async def apply_up_to(
        self,
        topic: str,
        partition: int,
        end: int,
        until_s: float,
        generation: int,
        *,
        undelivered: bool = False,
    ) -> bool:
        """Apply a topic's records below `end` in front of all else, while `generation` lasts;
        whether that was done in time. `undelivered`: they will not be delivered."""
        ...


class UndeliveredWatch:
    """Looks while it runs."""

    def __init__(self, kafka: KafkaSettings) -> None:
        self.brokers = Brokers(kafka)
        self._stood: dict[Place, tuple[int, int]] = {}
        """Where a partition stood before its end, and at how many looks in a row."""
        self._empty: dict[Place, int] = {}
        """End up to which a partition was read and held nothing more."""

    async def run(self, runner: Watched) -> None:
        """Look again and again, until cancelled."""
        try:
            while True:
                await asyncio.sleep(LOOK_S)
                if runner.recovered:
                    await self.look(runner)
        finally:
            await self.brokers.leave()

    async def look(self, runner: Watched) -> None:
        """Compare once, and read what has not come for too long.

        Raises:
            TopicChanged: a partition ends before what was applied of it.
        """
        generation = runner.generation
        places = {(topic, partition) for topic in runner.topics for partition in runner.stages}
        before = {place: runner.position(*place) for place in places}
        spans = await self.brokers.spans(places)
        if spans is None:
            return
        check_ends(before, {place: end for place, (_, end) in spans.items()})
        behind = {
            place: end
            for place, (_, end) in sorted(spans.items())
            if self._following(runner, place) < end
        }
        self._stood = {
            place: self._looks(place, self._following(runner, place)) for place in behind
        }
        for place, end in behind.items():
            if self._stood[place][1] >= LOOKS:
                await self._read(runner, generation, place, end)

    def _following(self, runner: Watched, place: Place) -> int:
        """The offset that a partition goes on from."""
        topic, partition = place
        if partition not in runner.stages:
            return self._empty.get(place, 0)
        return max(runner.position(topic, partition) + 1, self._empty.get(place, 0))

    def _looks(self, place: Place, following: int) -> tuple[int, int]:
        before, looks = self._stood.get(place, (-1, 0))
        return following, looks + 1 if before == following else 1

    async def _read(self, runner: Watched, generation: int, place: Place, end: int) -> None:
        topic, partition = place
        first = self._following(runner, place)
        until_s = time.monotonic() + READ_MAX_S
        read = runner.apply_up_to(topic, partition, end, until_s, generation, undelivered=True)
        if not await read:
            return
        following = self._following(runner, place)
        self._empty[place] = end
        # Else its last offsets hold no record, as where a producer has ended a transaction.
        if following > first:
            logger.warning(
                "%s, partition %d: read from offset %d to %d, which were not delivered",
                topic,
                partition,
                first,
                end - 1,
            )
