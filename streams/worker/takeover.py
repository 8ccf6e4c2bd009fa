"""Takes over the partitions that Faust assigns to this worker, and drops those that are gone.

On a rebalance the batches under way are finished first (`runner`). State and rows of partitions
that are gone are dropped. When Faust has recovered the tables, the state of every partition is
built from its rows, even if the partition stayed: another worker may have had it in between,
unnoticed.

Partitions may be taken away at any time during this. So a takeover belongs to one generation, and
after each wait it is given up if that generation is over: the next assignment begins another one.
"""

import asyncio
import time
from collections.abc import Callable, Collection, Mapping
from typing import Any, Protocol

from streams.stage.records import Stage
from streams.worker import garbage_collection, story
from streams.worker.assignment import Assignment
from streams.worker.durability import Durability
from streams.worker.tables import RowTable
from streams.worker.telemetry import Telemetry
from streams.worker.topic_watch import TopicWatch

#: Time between two questions to brokers that do not answer, in seconds.
_ASK_AGAIN_S = 0.25

#: Rows of one partition by key.
Rows = Mapping[str, bytes]


class Fed(Protocol):
    """A stage's runner as its partitions are taken over."""

    @property
    def name(self) -> str:
        """aggregate or cluster."""
        ...

    def position(self, topic: str, partition: int) -> int:
        """Offset applied last of a topic; -1: none."""
        ...

    async def catch_up(self) -> None:
        """Bring the partitions into the present."""
        ...

    def go_on(self) -> None:
        """The partitions are there: batches may come."""
        ...


class Takeover:
    """The stages of the partitions that this worker owns."""

    def __init__(
        self,
        app: Any,
        assignment: Assignment,
        *,
        tables: Collection[RowTable],
        durability: Durability,
        build: Callable[[int, Rows], Stage],
        watch: TopicWatch,
        kept: Collection[str],
        telemetry: Telemetry,
    ) -> None:
        """`kept` are the topics that the state is made of; the others are as in `StageRunner`."""
        self._app = app
        self._assignment = assignment
        self._tables = {table.name: table for table in tables}
        self._durability = durability
        self._build = build
        self._watch = watch
        self._kept = frozenset(kept)
        self._telemetry = telemetry
        self._opening = asyncio.Lock()
        self._assigned_at_s = time.monotonic()
        self.generation = 0
        """How often partitions were taken away."""
        self.stages: dict[int, Stage] = {}
        self.recovered = False
        """All partitions that this worker owns, which may be none, have their state."""

    @property
    def waiting_since_s(self) -> float | None:
        """Since when recovery waits for a row, by the monotonic clock; none: it is over."""
        if self.recovered or not self._app.in_recovery:
            return None
        read_at_s: float = self._app.row_read_at_s
        return max(self._assigned_at_s, read_at_s)

    def revoked(self) -> None:
        """Partitions are taken away: what is done for them from now on comes too late."""
        self.recovered = False
        self.generation += 1

    def assigned(self, runner: Fed, assigned: Collection[Any]) -> None:
        """Drop what is not in the new assignment, topics and partitions as Faust has them."""
        self.recovered = False
        self._assigned_at_s = time.monotonic()
        owned = self._assignment.partitions(assigned)
        for partition in [each for each in self.stages if each not in owned]:
            self._close(partition)
        standby: set[int] = set()
        for table in self._tables.values():
            # Standby copies are assigned under the changelog's own name.
            copies = {tp.partition for tp in assigned if tp.topic == table.changelog}
            table.keep_only(owned | copies)
            standby |= copies - owned
        self._telemetry.standing_by(runner.name, len(standby))

    async def open(self, runner: Fed) -> None:
        """Faust has recovered the tables: take over what this worker owns now."""
        generation = self.generation
        async with self._opening:  # what was opened too late must not replace what was opened since
            if self.generation == generation:
                await self._open(runner, generation)

    async def _open(self, runner: Fed, generation: int) -> None:
        owned = self._assignment.owned()
        while not await self._watch.look():
            if self.generation != generation:
                return
            await asyncio.sleep(_ASK_AGAIN_S)
        self._durability.topic_ids = {
            name: topic_id for name, topic_id in self._watch.ids.items() if name in self._kept
        }
        rows: dict[int, dict[str, bytes]] = {partition: {} for partition in owned}
        for table in self._tables.values():
            for partition, of_table in table.rows(owned).items():
                rows[partition] |= of_table
        if not await self._build_stages(rows, owned, generation):
            return
        await self._assignment.check(runner.position)
        await runner.catch_up()
        if self.generation != generation:
            return  # partitions were taken away meanwhile; the next assignment comes here again
        # Before the seek: what comes between the two would be dropped and never come again.
        self.recovered = True
        runner.go_on()
        await self._assignment.seek(runner.position, lambda: self.generation == generation)
        count = sum(map(len, rows.values()))
        seconds = time.monotonic() - self._assigned_at_s
        self._telemetry.recovered(runner.name, len(owned), count, seconds)
        story.recovered(runner.name, owned, count, seconds)

    async def _build_stages(
        self,
        rows: Mapping[int, dict[str, bytes]],
        owned: set[int],
        generation: int,
    ) -> bool:
        """The stage of each partition from its rows; False: the generation is over."""
        with garbage_collection.lasting():
            for partition in sorted(owned):
                redone = await self._durability.open(partition, rows[partition])
                if self.generation != generation:
                    self._close(partition)  # taken away meanwhile: nothing of it may be written
                    return False
                self.stages[partition] = self._build(partition, redone)
                await asyncio.sleep(0)  # heartbeats go on between large partitions
        return self.generation == generation

    def _close(self, partition: int) -> None:
        self.stages.pop(partition, None)
        self._durability.close(partition)
