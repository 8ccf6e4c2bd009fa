"""Runs a stage over the partitions that this worker owns.

The steps of a batch:

1. `intake` checks that no records are missing, and applies the batch to the state in memory.
2. `pipeline` makes the result durable, and acknowledges the events, so that Faust commits their offsets.

After a crash between the steps, the state is restored from durable rows, and records that were applied
before are skipped. Any error stops the worker, because the state in memory may be ahead of the durable
state. After an outage, `ticker` first brings the clocks of the partitions up to date. `topic_watch` stops
the worker if a topic is missing or was replaced. At a rebalance, `takeover` completes pending batches and
builds the stages of new partitions.
"""

import asyncio
import logging
from collections.abc import Callable, Collection
from itertools import chain
from typing import Any

from schemas.settings.connection import KafkaSettings
from schemas.storage.tables import is_of_cluster
from streams.stage.packing import apply_changes
from streams.stage.records import PartitionRows, Stage
from streams.worker.consume.batches import Batches, BatchLimits
from streams.worker.consume.intake import Intake
from streams.worker.consume.takeover import Takeover
from streams.worker.consume.ticker import Ticker, TickSettings
from streams.worker.consume.transport import count_in_flight
from streams.worker.consume.undelivered import UndeliveredWatch
from streams.worker.event_loop import TimeSlice
from streams.worker.partitions import Partitions
from streams.worker.report.metrics import Metrics
from streams.worker.store.checkpointer import Checkpointer
from streams.worker.store.journal_first import JournalFirst
from streams.worker.store.pipeline import Pipeline
from streams.worker.store.publisher import Publisher
from streams.worker.store.topic_watch import TopicWatch, list_written_topics
from streams.worker.store.writethrough import WriteThrough
from streams.worker.tables import RowTable

logger = logging.getLogger(__name__)

#: Time between two checks whether a stage has work to prepare, in seconds.
_PREPARE_INTERVAL_S = 0.1


class StageRunner:
    """Connects the parts of a stage's worker; `run` is the body of a Faust agent."""

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
        ticks: TickSettings | None = None,
        checkpointer: Checkpointer | None = None,
    ) -> None:
        """Connect the parts with an app that has not started yet.

        Args:
            name: aggregate or cluster.
            topics: input topics.
            build: builds the stage of a partition from its rows.
            patient: topics whose records need no quick answer.
            ticks: settings of ticks; None: another program writes the time.
        """
        self._app = app
        self._tables = tables
        self._durability = durability
        self._checkpointer = checkpointer
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
        self._watch = TopicWatch(settings, state, list_written_topics(name))
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
        """Apply the events of a stream batch by batch, until an error or a cancellation."""
        await self.publisher.start()
        work = [
            self._batches.collect(stream),
            self._apply_batches(),
            self.pipeline.journal_all(),
            self.pipeline.commit_all(),
            self.pipeline.flush_rows(),
            self._prepare_stages(),
            self._undelivered.run(),
            self._watch.run(self.partitions),
        ]
        if self._ticker is not None:
            work.append(self._ticker.run())
        if self._checkpointer is not None:
            work.append(self._checkpointer.run())
        tasks = [asyncio.create_task(coroutine) for coroutine in work]
        try:
            finished, _ = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            for task in finished:
                task.result()
        except Exception as error:
            # Faust would restart the agent with a state that may be ahead of the durable state.
            logger.critical("stopping the worker: %s", error, exc_info=error)
            await self._app.crash(error)
            raise
        finally:
            # Before all else, because a rebalance may wait for pending batches.
            self.pipeline.drop_pending()
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
            self._metrics.observe_in_flight(stage, count_in_flight(self._app.consumer, topics))
            if self._ticker is not None and self._ticker.is_late:
                await self._ticker.catch_up()
            await self.intake.apply_batch(batch)

    async def _prepare_stages(self) -> None:
        """Let the stages do work for later records in time slices."""
        while True:
            time_slice = TimeSlice()
            while any(stage.prepare() for stage in self.partitions.stages.values()):
                if time_slice.is_over:
                    await time_slice.rest()
            await asyncio.sleep(_PREPARE_INTERVAL_S)

    def read_cluster_rows(self, partition: int, cluster: str) -> PartitionRows:
        """Return the rows of a cluster after all applied batches.

        Changes in the journal may be missing in the tables, and changes of pending batches in the journal.
        """
        rows: PartitionRows = {}
        for table in self._tables:
            rows |= table.read_cluster(partition, cluster)
        changes = chain(
            *self._durability.list_unwritten(partition), self.pipeline.list_pending_rows(partition)
        )
        apply_changes(
            rows, (change for change in changes if is_of_cluster(change.key, partition, cluster))
        )
        return rows
