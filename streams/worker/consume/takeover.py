"""Takes over assigned partitions, and drops lost partitions.

At a rebalance, pending batches are completed first. State and rows of lost partitions are dropped. When
Faust has recovered the tables, the stage of every partition is built from its rows, even if the worker
owned the partition before: another worker may have owned it meanwhile.

A rebalance can begin at any time. So a takeover belongs to one generation. After each wait, a takeover of
an earlier generation is aborted; the next assignment starts another takeover.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from connectors.kafka.reconnect import ask_until_answered
from streams.stage.records import PartitionRows, Stage
from streams.worker.consume.batches import Batches
from streams.worker.consume.intake import Intake
from streams.worker.consume.ticker import Ticker
from streams.worker.event_loop import without_garbage_collection
from streams.worker.partitions import Partitions
from streams.worker.report.metrics import Metrics
from streams.worker.store.journal_first import JournalFirst
from streams.worker.store.topic_watch import TopicWatch, check_ends
from streams.worker.store.writethrough import WriteThrough
from streams.worker.tables import RowTable

logger = logging.getLogger(__name__)

#: Time between two requests while no broker answers, in seconds.
_RETRY_S = 0.25


@dataclass
class Takeover:
    app: Any
    partitions: Partitions
    batches: Batches
    intake: Intake
    ticker: Ticker | None
    tables: Collection[RowTable]
    durability: JournalFirst | WriteThrough
    build: Callable[[int, PartitionRows], Stage]
    """Builds the stage of a partition from its rows."""
    watch: TopicWatch
    metrics: Metrics
    _opening: asyncio.Lock = field(default_factory=asyncio.Lock, init=False)

    def __post_init__(self) -> None:
        self.app.on_partitions_revoked.connect(self.on_revoked)
        self.app.on_partitions_assigned.connect(self.on_assigned)
        self.app.on_rebalance_complete.connect(self.on_recovered)
        self.app.on_before_shutdown.connect(self.on_shutdown)

    async def on_revoked(self, app: Any, revoked: Any, **_: Any) -> None:
        """Stop applying records at the start of a rebalance, and make applied records durable."""
        partitions = self.partitions
        partitions.recovered = False
        partitions.generation += 1
        self.metrics.clear_partitions(partitions.stage)
        if partitions.stages:
            logger.info(
                "stage %s releases the partitions %s for a rebalance",
                partitions.stage,
                _join_numbers(partitions.stages),
            )
        self.batches.hold()
        await self.intake.make_durable()  # the next owner reads the rows from the changelog

    async def on_assigned(self, app: Any, assigned: Any, **_: Any) -> None:
        """Drop partitions that are not in the new assignment."""
        partitions = self.partitions
        partitions.recovered = False
        partitions.assigned_at_s = time.monotonic()
        owned = partitions.select_inputs(assigned)
        for partition in [number for number in partitions.stages if number not in owned]:
            self._close(partition)
        standby: set[int] = set()
        for table in self.tables:
            # Standby copies are assigned as partitions of the changelog.
            copies = {tp.partition for tp in assigned if tp.topic == table.changelog}
            table.keep_only(owned | copies)
            standby |= copies - owned
        self.metrics.standby_copies.labels(partitions.stage).set(len(standby))

    async def on_recovered(self, app: Any, **_: Any) -> None:
        """Take over the owned partitions after Faust has recovered the tables."""
        generation = self.partitions.generation
        async with (
            self._opening
        ):  # an older takeover must not replace the state of a newer takeover
            if self.partitions.is_current(generation):
                await self._open(generation)

    async def on_shutdown(self, app: Any, **_: Any) -> None:
        """Make applied records durable, so that the next owner need not apply them again."""
        if not app.crashed:
            self.batches.hold()
            await self.intake.make_durable()

    async def _open(self, generation: int) -> None:
        partitions = self.partitions
        owned = partitions.select_inputs(self.app.assignor.assigned_actives())
        while not await self.watch.check_once():
            if not self.partitions.is_current(generation):
                return
            await asyncio.sleep(_RETRY_S)
        rows: dict[int, PartitionRows] = {partition: {} for partition in owned}
        for table in self.tables:
            for partition, table_rows in table.read_rows(owned).items():
                rows[partition] |= table_rows
        if not await self._build_stages(rows, owned, generation):
            return
        await self._check_ends()
        if self.ticker is not None:
            await self.ticker.catch_up()
        if not self.partitions.is_current(generation):
            return
        # Before the seek, because records delivered between the two steps would be lost.
        partitions.recovered = True
        self.batches.release()
        await self._seek(generation)
        count = sum(map(len, rows.values()))
        seconds = time.monotonic() - partitions.assigned_at_s
        self.metrics.observe_recovery(partitions.stage, len(owned), count, seconds)
        logger.info(
            "stage %s owns the partitions %s, recovered from %d rows in %.1f s",
            partitions.stage,
            _join_numbers(owned),
            count,
            seconds,
        )

    async def _build_stages(
        self,
        rows: Mapping[int, PartitionRows],
        owned: set[int],
        generation: int,
    ) -> bool:
        """Build the stage of each partition; return False if the generation is over."""
        with without_garbage_collection():
            for partition in sorted(owned):
                newest_rows = await self.durability.open(
                    partition, rows[partition], self.watch.state_ids
                )
                if not self.partitions.is_current(generation):
                    self._close(partition)
                    return False
                self.partitions.stages[partition] = self.build(partition, newest_rows)
                await asyncio.sleep(0)  # heartbeats between large partitions
        return self.partitions.is_current(generation)

    def _close(self, partition: int) -> None:
        self.partitions.stages.pop(partition, None)
        self.durability.close(partition)

    async def _seek(self, generation: int) -> None:
        """Let Faust's consumer continue after the applied records.

        Faust seeks to committed offsets afterwards. Without a committed offset Faust does not seek, and
        records that it has dropped in the rebalance would be lost. If a committed offset is too small,
        records are repeated; if it is too large, there is a gap. Intake handles both.
        """
        for tp in self._list_inputs():
            if not self.partitions.is_current(generation):
                return
            position = self.partitions.position(tp.topic, tp.partition)
            await self.app.consumer.seek(tp, position + 1)

    async def _check_ends(self) -> None:
        """Check that no input ends before its applied offset. Raises TopicChanged."""
        inputs = self._list_inputs()
        positions = {tp: self.partitions.position(tp.topic, tp.partition) for tp in inputs}
        if positions:
            ask = partial(self.app.consumer.highwaters, *positions)
            subject = f"{self.partitions.stage}: the ends of its inputs"
            check_ends(positions, await ask_until_answered(ask, subject))

    def _list_inputs(self) -> list[Any]:
        actives = self.app.assignor.assigned_actives()
        return [tp for tp in actives if tp.topic in self.partitions.topics]


def _join_numbers(partitions: Collection[int]) -> str:
    return ", ".join(map(str, sorted(partitions))) or "none"
