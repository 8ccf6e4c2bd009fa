"""Runs the stages of the partitions that this worker owns.

A batch takes these steps in this order: check that the records follow directly on those applied
last (`sequence`); apply them to the state in memory; make the result durable (`durability`);
acknowledge the events, which lets Faust commit their offsets. After a crash in between, steps are
repeated: the state starts again from what is durable, and records that it knows already are
skipped. Any error stops the worker, since the state in memory may then be ahead of what is durable.
It is also ahead when all is well: the next batch is applied while the one before is on its way to
the broker.

After an outage partitions are brought to the present before anything else is applied (`ticker`).
A topic that is missing or not what it was stops the worker (`topic_watch`).

On a rebalance the batches under way are finished first. `takeover` knows which partitions are
owned, and their state.
"""

import asyncio
import logging
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping
from contextlib import aclosing
from functools import partial
from itertools import chain
from typing import Any

from schemas.connection import KafkaSettings
from schemas.tables import of_cluster
from streams.stage.packing import put
from streams.stage.records import InputRecord, Stage
from streams.worker import story
from streams.worker.assignment import Assignment
from streams.worker.batches import Batch, Batches, BatchLimits
from streams.worker.durability import Applied, Durability
from streams.worker.notices import Notices
from streams.worker.pace import Pace
from streams.worker.pipeline import Pipeline, UnderWay
from streams.worker.publisher import Publisher
from streams.worker.reader import read_pieces
from streams.worker.sequence import Sequence
from streams.worker.tables import RowTable
from streams.worker.takeover import Rows, Takeover
from streams.worker.telemetry import Telemetry
from streams.worker.ticker import Ticker
from streams.worker.topic_watch import TopicWatch, written_by
from streams.worker.transport import in_flight
from streams.worker.undelivered import UndeliveredWatch

logger = logging.getLogger(__name__)

#: Time after which is looked again whether a stage has something to prepare, in seconds.
_PREPARE_S = 0.1


class StageRunner:
    """State per partition, fed from one Faust stream; `run` is the body of an agent."""

    def __init__(
        self,
        app: Any,
        *,
        topics: Collection[str],
        tables: Collection[RowTable],
        publisher: Publisher,
        durability: Durability,
        settings: KafkaSettings,
        build: Callable[[int, Rows], Stage],
        limits: BatchLimits,
        patient: Collection[str] = frozenset(),
        name: str = "stage",
        telemetry: Telemetry | None = None,
    ) -> None:
        """`build` makes the stage of a partition from its rows, which may be none; `patient` are
        topics whose records need no quick answer."""
        self._app = app
        self.topics = frozenset(topics)
        self._tables = {table.name: table for table in tables}
        self._publisher = publisher
        self._durability = durability
        self._settings = settings
        self._batches = Batches(app, limits, patient)
        self._applying = asyncio.Lock()
        self._pipeline = Pipeline(durability, self._tell)
        self._undelivered = UndeliveredWatch(settings)
        self.name = name
        self._telemetry = telemetry or Telemetry()
        self._telemetry.begin(name, self.topics, settings.partitions)
        kept = self.topics | {*durability.topics, *(each.changelog for each in tables)}
        self._watch = TopicWatch(settings, kept.union(written_by(name)))
        self._sequence = Sequence(
            settings,
            self.topics,
            position=self.position,
            put=self._put,
            healed=partial(self._telemetry.healed, name),
        )
        self.notices = Notices(name)
        """What is wrong with its clock and its group."""
        self.clock: Ticker | None = None
        """What gives the partitions the time, where that is this worker's to do."""
        self._takeover = Takeover(
            app,
            Assignment(app, self.topics, name),
            tables=tables,
            durability=durability,
            build=build,
            watch=self._watch,
            kept=kept,
            telemetry=self._telemetry,
        )
        self.stages = self._takeover.stages
        """The state of each partition that this worker owns."""
        app.on_partitions_revoked.connect(self._on_revoked)
        app.on_partitions_assigned.connect(self._on_assigned)
        app.on_rebalance_complete.connect(self._on_recovered)
        app.on_before_shutdown.connect(self._on_shutdown)

    @property
    def written_bytes(self) -> Mapping[str, int]:
        """Bytes of keys and values that were given to the brokers since the start, by topic."""
        return self._publisher.written_bytes

    @property
    def busy_since_s(self) -> float | None:
        """When the oldest batch under way began, by the monotonic clock; none: there is none."""
        return self._pipeline.busy_since_s

    @property
    def waiting_since_s(self) -> float | None:
        """Since when recovery waits for a row, by the monotonic clock; none: it is over."""
        return self._takeover.waiting_since_s

    @property
    def recovered(self) -> bool:
        """All partitions that this worker owns, which may be none, have their state."""
        return self._takeover.recovered

    @property
    def generation(self) -> int:
        """How often partitions were taken away."""
        return self._takeover.generation

    def position(self, topic: str, partition: int) -> int:
        """Offset applied last of a topic; -1: none."""
        return self.stages[partition].positions.get(topic, -1)

    async def run(self, stream: Any) -> None:
        """Apply the stream's events batch by batch; returns only by an error or a cancellation."""
        await self._publisher.start()
        tasks = [
            asyncio.create_task(self._batches.pump(stream)),
            asyncio.create_task(self._apply_batches()),
            asyncio.create_task(self._pipeline.journal_all()),
            asyncio.create_task(self._pipeline.commit_all()),
            asyncio.create_task(self._pipeline.flush_rows()),
            asyncio.create_task(self._prepare()),
            asyncio.create_task(self._undelivered.run(self)),
            asyncio.create_task(self._watch.run()),
        ]
        try:
            done, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        except Exception as error:
            # Faust would start the agent again over a state that may be ahead of what is durable.
            logger.critical("stopping the worker: %s", error, exc_info=error)
            await self._app.crash(error)
            raise
        finally:
            # First: Faust cancels this as well, while a rebalance may wait for what is under way.
            self._pipeline.give_up()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._publisher.stop()

    async def _apply_batches(self) -> None:
        while True:
            batch = await self._batches.take()
            self._telemetry.in_flight(self.name, in_flight(self._app.consumer, self.topics))
            if self.clock is not None and self.clock.late(self.stages):
                await self.clock.make_up(self)
            async with self._applying:
                # Else partitions were taken away, and the records come to their new owner.
                if self.recovered:
                    await self._put_through(batch)

    async def _prepare(self) -> None:
        """Let the stages prepare what later records would wait for, a little at a time."""
        while True:
            pace = Pace()
            while any(stage.prepare() for stage in self.stages.values()):
                if pace.over:
                    await pace.rest()
            await asyncio.sleep(_PREPARE_S)

    async def _put_through(self, batch: Batch) -> None:
        """Apply a batch; it is durable when those before it are."""
        began_s = time.monotonic()
        by_partition: dict[int, list[InputRecord]] = defaultdict(list)
        for record in batch.records:
            if record.partition in self.stages:  # else it was lost: they come to its new owner
                by_partition[record.partition].append(record)
        applied = [
            self._apply(partition, fresh)
            for partition, records in by_partition.items()
            if (fresh := await self._sequence.fresh(partition, records))
        ]
        await self._pipeline.hand_over(UnderWay(applied, batch, began_s))

    def _apply(self, partition: int, records: list[InputRecord]) -> Applied:
        checked = records if self.clock is None else self.clock.checked(records)
        return Applied(partition, checked, self.stages[partition].apply(checked))

    async def _put(self, partition: int, records: list[InputRecord]) -> None:
        """Apply records on their own, with no batch of Faust's to acknowledge."""
        it = UnderWay([self._apply(partition, records)], Batch(), time.monotonic())
        await self._pipeline.hand_over(it)

    async def _settle(self) -> None:
        """Make all that was applied durable; the caller holds back what follows."""
        async with self._applying:
            await self._pipeline.settle()

    def rows_of(self, partition: int, cluster: str) -> dict[str, bytes]:
        """Rows of a cluster, as all batches applied so far leave them.

        The tables lack changes that are in the journal, and the journal those of batches under way.
        """
        rows: dict[str, bytes] = {}
        for table in self._tables.values():
            rows |= table.of_cluster(partition, cluster)
        changes = chain(
            *self._durability.unwritten(partition), self._pipeline.rows_under_way(partition)
        )
        put(rows, (change for change in changes if of_cluster(change.key, partition, cluster)))
        return rows

    def _tell(self, it: UnderWay, seconds: float) -> None:
        """Count what went through."""
        telemetry, name = self._telemetry, self.name
        if it.batch.records:
            telemetry.batch(name, Counter(record.topic for record in it.batch.records), seconds)
        for batch in it.applied:
            telemetry.result(name, batch.result)
            if (stage := self.stages.get(batch.partition)) is not None:
                counts = stage.take_counts()
                telemetry.counts(name, counts)
                story.counted(counts)
            telemetry.answered(name, batch.records)

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
        """Put a topic's records below `end` through in front of all others; Faust's come too late
        then, or not at all where they are `undelivered`.

        `generation` is the one in which the caller saw the partition here. Answers whether that was
        done: not past `until_s`, and not once partitions were taken away since that generation,
        whether during the call or before it.
        """
        count = self._telemetry.healed if undelivered else self._telemetry.ahead
        if self.generation != generation:
            return False  # the partition may be another worker's by now
        first = self.position(topic, partition) + 1
        async with aclosing(read_pieces(self._settings, topic, partition, first, end)) as pieces:
            async for entries in pieces:
                async with self._applying:
                    late = time.monotonic() > until_s
                    if late or self.generation != generation:
                        return False
                    # Faust may have delivered some of them meanwhile.
                    position = self.position(topic, partition)
                    fresh = [entry for entry in entries if entry.offset > position]
                    if fresh:
                        records = [entry.as_input(topic, partition) for entry in fresh]
                        await self._put(partition, records)
                        count(self.name, topic, len(records))
        return True

    async def catch_up(self) -> None:
        """Bring the partitions into the present, if this worker gives them the time."""
        if self.clock is not None:
            await self.clock.make_up(self)

    def go_on(self) -> None:
        """Take batches again."""
        self._batches.release()

    async def _on_revoked(self, app: Any, revoked: Any, **_: Any) -> None:
        self._takeover.revoked()
        self._telemetry.revoked(self.name)
        story.revoked(self.name, self.stages)
        self._batches.hold()
        await self._settle()  # its rows are in the changelog before that is read

    async def _on_assigned(self, app: Any, assigned: Any, **_: Any) -> None:
        self._takeover.assigned(self, assigned)

    async def _on_recovered(self, app: Any, **_: Any) -> None:
        await self._takeover.open(self)

    async def _on_shutdown(self, app: Any, **_: Any) -> None:
        """A clean end leaves nothing to redo."""
        if app.crashed:
            return
        self._batches.hold()
        await self._settle()
