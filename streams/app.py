"""Builds the worker: the stages in the order in which data flows through them.

    node-usage ──▶ aggregate ──▶ node-metrics ──┐
    node-state, pod-lifecycle, policies, ───────┼──▶ cluster ──▶ placement-decisions, dead-letters,
    scheduling-requests, command-outcomes, clock┘                collect policies into node-usage

Each stage is a Faust agent with one writer per partition. Only this module knows both the stages and the
worker. `build` returns the Faust app; the caller runs it.
"""

import logging
from typing import Any

from connectors.process.metrics_endpoint import Endpoint
from schemas.settings.connection import APP_ID, KafkaSettings
from schemas.storage.tables import CLUSTER_TABLES, WINDOWS
from schemas.topics.catalog import CLUSTER_INPUTS, TOPIC_BY_NAME
from streams.aggregate.collect_policies import AggregateLimits, PoolRules
from streams.aggregate.intake import INPUT
from streams.aggregate.restore import restore
from streams.aggregate.stage import AggregateStage
from streams.cluster.stage import ClusterStage
from streams.stage.records import PartitionRows
from streams.stage.version import VERSION
from streams.worker.consume.batches import BatchLimits
from streams.worker.consume.ticker import TickSettings
from streams.worker.consume.transport import WorkerApp, broker_credentials, broker_urls
from streams.worker.membership import Membership
from streams.worker.report.health import Health
from streams.worker.report.metrics import Metrics
from streams.worker.report.observer import Gauges, Observer
from streams.worker.runner import StageRunner
from streams.worker.settings import WorkerSettings
from streams.worker.store.checkpointer import Checkpointer
from streams.worker.store.fence import FencedPublisher
from streams.worker.store.journal_first import JournalFirst
from streams.worker.store.publisher import Publisher
from streams.worker.store.row_writer import RowWriter
from streams.worker.store.writethrough import WriteThrough
from streams.worker.tables import RowTable

logger = logging.getLogger(__name__)

#: Inputs of the cluster stage whose records need no quick answer (`batches`).
_PATIENT_TOPICS = frozenset(name for name in CLUSTER_INPUTS if not TOPIC_BY_NAME[name].answered)


def build(worker: WorkerSettings, kafka: KafkaSettings) -> Any:
    """Return the Faust app of a worker.

    Raises:
        NoBroker: no address is configured, and no local broker is announced.
        SettingsError: the data directory is not writable, or the collect file is invalid.
        PortUnusable: the worker cannot listen on the metrics port.
    """
    worker.make_data_dir()
    app = WorkerApp(
        APP_ID if worker.stages == "all" else f"{APP_ID}-{worker.stages}",
        broker=broker_urls(kafka),
        broker_credentials=broker_credentials(kafka),
        broker_client_id=kafka.client_id,
        broker_session_timeout=worker.session_timeout_s,
        broker_heartbeat_interval=worker.heartbeat_interval_s,
        broker_max_poll_records=2_000,
        consumer_auto_offset_reset="earliest",
        datadir=str(worker.data_dir),
        store="memory://",
        # The topics exist already, with the expected settings.
        topic_allow_declare=False,
        topic_disable_leader=True,
        topic_partitions=kafka.partitions,
        table_standby_replicas=worker.standby_replicas,
        stream_wait_empty=False,
        web_enabled=False,
    )
    app.fetch_wait_ms = worker.fetch_wait_ms
    limits = BatchLimits(
        records=worker.batch_records,
        bytes=worker.batch_bytes,
        wait_s=worker.batch_wait_ms / 1000,
    )
    metrics = Metrics(wall_clock=worker.clock == "wall")
    runners = []
    if worker.stages != "cluster":
        document = worker.read_collect_policy()
        rules = PoolRules() if document is None else PoolRules(*document.collect.as_messages)
        runners.append(add_aggregate(app, kafka, limits, metrics, rules))
    if worker.stages != "aggregate":
        ticks = TickSettings(worker.tick_interval_s, worker.clock_hold_s)
        runners.append(
            add_cluster(
                app,
                kafka,
                limits,
                metrics,
                checkpoint_interval_s=worker.checkpoint_interval_s,
                ticks=ticks if worker.clock == "wall" else None,
            )
        )
    app.companions = (Membership(app, [runner.partitions.problems for runner in runners]).run,)
    if worker.metrics_port:
        _add_endpoints(app, worker, kafka, metrics, runners)
    _log_start(worker, kafka)
    return app


def add_aggregate(
    app: WorkerApp,
    kafka: KafkaSettings,
    limits: BatchLimits,
    metrics: Metrics,
    rules: PoolRules,
) -> StageRunner:
    """Add the aggregate stage to an app that has not started."""

    def build_stage(partition: int, rows: PartitionRows) -> AggregateStage:
        state = restore(partition, rows, rules)
        return AggregateStage(state, kafka.partitions, AggregateLimits())

    publisher = FencedPublisher(kafka)
    table = RowTable(app, WINDOWS, kafka.partitions)
    runner = StageRunner(
        app,
        name="aggregate",
        topics=(INPUT,),
        tables=(table,),
        publisher=publisher,
        durability=WriteThrough(kafka, publisher, table),
        settings=kafka,
        build=build_stage,
        limits=limits,
        metrics=metrics,
    )

    async def aggregate(stream: Any) -> None:
        await runner.run(stream)

    app.agent(app.inputs((INPUT,)), name="aggregate")(aggregate)
    return runner


def add_cluster(
    app: WorkerApp,
    kafka: KafkaSettings,
    limits: BatchLimits,
    metrics: Metrics,
    *,
    checkpoint_interval_s: float = 0.0,
    ticks: TickSettings | None = None,
) -> StageRunner:
    """Add the cluster stage to an app that has not started.

    The stage reads all its inputs as one stream. With an interval of 0, it writes no checkpoints.
    """

    def build_stage(partition: int, rows: PartitionRows) -> ClusterStage:
        return ClusterStage.restore(
            partition,
            kafka.partitions,
            rows,
            recall=lambda cluster: runner.read_cluster_rows(partition, cluster),
        )

    publisher = FencedPublisher(kafka)
    checkpointer = None
    if checkpoint_interval_s:
        separate = Publisher(kafka)
        separate.written_bytes = publisher.written_bytes
        checkpointer = Checkpointer(
            separate,
            checkpoint_interval_s,
            lambda result: metrics.checkpoints.labels("cluster", result).inc(),
        )
    tables = [RowTable(app, name, kafka.partitions) for name in CLUSTER_TABLES]
    runner = StageRunner(
        app,
        name="cluster",
        topics=CLUSTER_INPUTS,
        tables=tables,
        publisher=publisher,
        durability=JournalFirst(kafka, publisher, RowWriter(tables, publisher, checkpointer)),
        settings=kafka,
        build=build_stage,
        limits=limits,
        metrics=metrics,
        # Without ticks, another program writes the clock, and waits for the effect of each record.
        patient=_PATIENT_TOPICS if ticks else frozenset(),
        ticks=ticks,
        checkpointer=checkpointer,
    )

    async def cluster(stream: Any) -> None:
        await runner.run(stream)

    app.agent(app.inputs(CLUSTER_INPUTS), name="cluster")(cluster)
    return runner


def _add_endpoints(
    app: WorkerApp,
    worker: WorkerSettings,
    kafka: KafkaSettings,
    metrics: Metrics,
    runners: list[StageRunner],
) -> None:
    gauges = Gauges(wall_clock=worker.clock == "wall")
    metrics.registry.register(gauges)
    health = Health(lag_records_max=worker.ready_lag_records)
    observer = Observer(kafka, gauges, health)
    for runner in runners:
        observer.add_stage(runner.partitions, runner.pipeline, runner.publisher)
    app.companions = (*app.companions, observer.run)
    checks = {"/healthz": health.find_failures, "/readyz": health.find_obstacles}
    Endpoint(worker.metrics_host, worker.metrics_port, metrics.registry, checks)


def _log_start(worker: WorkerSettings, kafka: KafkaSettings) -> None:
    port = f"{worker.metrics_host or '*'}:{worker.metrics_port}" if worker.metrics_port else "none"
    logger.info(
        "loadstream %s starts: stages %s, brokers %s, %d partitions per topic, metrics on %s",
        VERSION,
        worker.stages,
        ",".join(kafka.servers()),
        kafka.partitions,
        port,
    )
    for variable, why in worker.find_ineffective().items():
        logger.info("%s has no effect: %s", variable, why)
