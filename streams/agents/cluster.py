"""The cluster stage as a Faust agent: one agent over all inputs, one writer per partition.

Records of all input topics come through one stream, so that what one partition's clusters receive
meets in one place; `streams.worker` makes batches of them, applies them and makes the result
durable.
"""

import asyncio
from functools import partial
from typing import Any

from schemas.connection import KafkaSettings
from schemas.tables import CLUSTER_TABLES
from schemas.topics import CLUSTER_INPUTS
from streams.cluster.stage import ClusterStage
from streams.worker.batches import BatchLimits
from streams.worker.checkpointer import Checkpointer
from streams.worker.fence import FencedPublisher
from streams.worker.journal_first import JournalFirst, RowWriter
from streams.worker.runner import StageRunner
from streams.worker.tables import RowTable
from streams.worker.takeover import Rows
from streams.worker.telemetry import Telemetry

#: Inputs whose senders wait for an answer: a decision, a command, or that time goes on. The
#: others say what is, and what comes after them sees it.
ANSWERED = frozenset({"scheduling-requests", "migration-requests", "policies", "clock"})


def register(
    app: Any,
    *,
    partitions: int,
    kafka: KafkaSettings,
    limits: BatchLimits,
    checkpoint_interval_s: float = 0.0,
    telemetry: Telemetry | None = None,
) -> StageRunner:
    """Add the stage to a Faust app that has not started yet; an interval of 0: there are no
    checkpoints."""

    def build(partition: int, rows: Rows) -> ClusterStage:
        return ClusterStage.restored(
            partition,
            partitions,
            rows,
            recall=lambda cluster: runner.rows_of(partition, cluster),
        )

    publisher = FencedPublisher(kafka)
    telemetry = telemetry or Telemetry()
    checkpointer = None
    if checkpoint_interval_s:
        tell = partial(telemetry.checkpoint, "cluster")
        checkpointer = Checkpointer(publisher.separate(), checkpoint_interval_s, tell)
    tables = [RowTable(app, name, partitions) for name in CLUSTER_TABLES]
    runner = StageRunner(
        app,
        topics=CLUSTER_INPUTS,
        tables=tables,
        publisher=publisher,
        durability=JournalFirst(kafka, publisher, RowWriter(tables, publisher), checkpointer),
        settings=kafka,
        build=build,
        limits=limits,
        patient=frozenset(CLUSTER_INPUTS) - ANSWERED,
        name="cluster",
        telemetry=telemetry,
    )

    async def cluster(stream: Any) -> None:
        beside = None if checkpointer is None else asyncio.create_task(checkpointer.run())
        try:
            await runner.run(stream)
        finally:
            if beside is not None:
                beside.cancel()

    app.agent(app.inputs(CLUSTER_INPUTS), name="cluster")(cluster)
    return runner
