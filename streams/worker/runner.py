"""Runs a stage over the partitions that this worker owns.

A batch takes these steps in this order: check that the records follow directly on those applied
last, and apply them to the state in memory (`intake`); make the result durable, then acknowledge
the events, which lets Faust commit their offsets (`pipeline`). After a crash in between, steps are
repeated: the state starts again from what is durable, and records that it knows already are
skipped. Any error stops the worker, since the state in memory may then be ahead of what is durable.

After an outage partitions are brought into the present before anything else is applied (`ticker`).
A topic that is missing or not what it was stops the worker (`topic_watch`). On a rebalance
`takeover` finishes the batches under way and builds the state of the new partitions.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from itertools import chain
from typing import Any

from schemas.settings.connection import KafkaSettings
from schemas.storage.tables import is_of_cluster
from streams.stage.packing import put
from streams.stage.records import PartitionRows, Stage
from streams.worker.consume.batches import Batches, BatchLimits
from streams.worker.consume.intake import Intake
from streams.worker.consume.takeover import Takeover
from streams.worker.consume.ticker import Ticker, Ticks
from streams.worker.consume.transport import PARCELS_QUEUED_MAX, in_flight
from streams.worker.consume.undelivered import UndeliveredWatch
from streams.worker.event_loop import Pace
from streams.worker.parcels import PARCEL_RECORDS
from streams.worker.partitions import Partitions
from streams.worker.report.metrics import Metrics
from streams.worker.store.journal_first import JournalFirst
from streams.worker.store.pipeline import AHEAD_MAX, Pipeline
from streams.worker.store.publisher import Publisher
from streams.worker.store.topic_watch import TopicWatch, written_by
from streams.worker.store.writethrough import WriteThrough
from streams.worker.tables import RowTable

logger = logging.getLogger(__name__)

#: Time between two checks whether a stage has something to prepare, in seconds.
_PREPARE_S = 0.1


def in_flight_max(limits: BatchLimits) -> int:
    """Most records of a stage that were fetched and are not durable, however many wait in Kafka.

    Those of the stream's queue; a parcel at each of its ends and one that is being collected; the
    batch that is collected and one applied, one that waits, one that is written to the journal and
    one that is published.
    """
    return (PARCELS_QUEUED_MAX + 3) * PARCEL_RECORDS + (AHEAD_MAX + 4) * limits.records


class StageRunner:
    """Puts the parts of a stage's worker together; `run` is the body of a Faust agent."""

    def __init__(
        self,
        app: Any,
        *,
        name: str,
        topics: Collection[str],
        tables: Collection[RowTable],
        publisher: Publisher,
        durability: JournalFirst | WriteThrough,
        settings: KafkaSettings,
        build: Callable[[int, PartitionRows], Stage],
        limits: BatchLimits,
        metrics: Metrics,
        patient: Collection[str] = frozenset(),
        ticks: Ticks | None = None,
    ) -> None:
        """Connect the parts with the app, which has not started yet.

        `build` makes the stage of a partition from its rows, which may be none; `patient` are
        topics whose records need no quick answer; without `ticks` another program gives the time.
        """
        self._app = app
        self._tables = tables
        self._durability = durability
        self._metrics = metrics
        self.publisher = publisher
        self.partitions = Partitions(app, name, topics)
        self.pipeline = Pipeline(durability)
        self.intake = Intake(
            self.partitions, self.pipeline, settings, metrics, check_ticks=ticks is not None
        )
        self._batches = Batches(app, limits, patient)
        self._ticker = None if ticks is None else Ticker(settings, self.intake, ticks)
        self._undelivered = UndeliveredWatch(settings, self.intake)
        state = {*topics, *durability.topics, *(table.changelog for table in tables)}
        self._watch = TopicWatch(settings, state, written_by(name))
        self.takeover = Takeover(
            app,
            self.partitions,
            batches=self._batches,
            intake=self.intake,
            ticker=self._ticker,
            tables=tables,
            durability=durability,
            build=build,
            watch=self._watch,
            metrics=metrics,
        )
        metrics.start_stage(name, self.partitions.topics, settings.partitions)

    async def run(self, stream: Any) -> None:
        """Apply the stream's events batch by batch; returns only by an error or a cancellation."""
        await self.publisher.start()
        work = [
            self._batches.pump(stream),
            self._apply_batches(),
            self.pipeline.journal_all(),
            self.pipeline.commit_all(),
            self.pipeline.flush_rows(),
            self._prepare(),
            self._undelivered.run(),
            self._watch.run(self.partitions),
        ]
        if self._ticker is not None:
            work.append(self._ticker.run())
        tasks = [asyncio.create_task(each) for each in work]
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
            self.pipeline.give_up()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self.publisher.stop()

    async def _apply_batches(self) -> None:
        while True:
            await self.pipeline.wait_for_room()
            batch = await self._batches.take()
            topics = self.partitions.topics
            stage = self.partitions.stage
            self._metrics.observe_in_flight(stage, in_flight(self._app.consumer, topics))
            if self._ticker is not None and self._ticker.is_late:
                await self._ticker.catch_up()
            await self.intake.apply_batch(batch)

    async def _prepare(self) -> None:
        """Let the stages prepare what later records would wait for, a little at a time."""
        while True:
            pace = Pace()
            while any(stage.prepare() for stage in self.partitions.stages.values()):
                if pace.is_over:
                    await pace.rest()
            await asyncio.sleep(_PREPARE_S)

    def rows_of(self, partition: int, cluster: str) -> PartitionRows:
        """Rows of a cluster, as all batches applied so far leave them.

        The tables lack changes that are in the journal, and the journal those of batches under way.
        """
        rows: PartitionRows = {}
        for table in self._tables:
            rows |= table.of_cluster(partition, cluster)
        changes = chain(
            *self._durability.unwritten(partition), self.pipeline.rows_under_way(partition)
        )
        put(rows, (change for change in changes if is_of_cluster(change.key, partition, cluster)))
        return rows
