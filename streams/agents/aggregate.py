"""The aggregate stage as a Faust agent over `node-usage`.

`streams.worker` makes batches of the records, applies them to the partitions' stages and makes the
result durable; here it is given what a partition's stage is and what its rows make of it.
"""

from typing import Any

from schemas.connection import KafkaSettings
from schemas.tables import WINDOWS
from streams.aggregate.collect import AggregateLimits, Collecting
from streams.aggregate.intake import INPUT
from streams.aggregate.restore import restore
from streams.aggregate.stage import AggregateStage
from streams.worker.batches import BatchLimits
from streams.worker.fence import FencedPublisher
from streams.worker.runner import StageRunner
from streams.worker.tables import RowTable
from streams.worker.takeover import Rows
from streams.worker.telemetry import Telemetry
from streams.worker.writethrough import WriteThrough


def register(
    app: Any,
    *,
    partitions: int,
    kafka: KafkaSettings,
    limits: BatchLimits,
    collecting: Collecting,
    aggregate_limits: AggregateLimits | None = None,
    telemetry: Telemetry | None = None,
) -> StageRunner:
    """Add the stage to a Faust app that has not started yet.

    `partitions` is how many `node-usage` and the table's changelog have; `limits` are those of a
    batch.
    """
    bounds = aggregate_limits or AggregateLimits()

    def build(partition: int, rows: Rows) -> AggregateStage:
        return AggregateStage(restore(partition, rows, collecting), partitions, bounds)

    publisher = FencedPublisher(kafka)
    table = RowTable(app, WINDOWS, partitions)
    runner = StageRunner(
        app,
        topics=(INPUT,),
        tables=(table,),
        publisher=publisher,
        durability=WriteThrough(kafka, publisher, table),
        settings=kafka,
        build=build,
        limits=limits,
        name="aggregate",
        telemetry=telemetry,
    )

    async def aggregate(stream: Any) -> None:
        await runner.run(stream)

    app.agent(app.inputs((INPUT,)), name="aggregate")(aggregate)
    return runner
