"""Builds the worker: the stages in the order in which data flows through them.

    node-usage ──▶ aggregate ──▶ node-metrics ──┐
    node-state, pod-lifecycle, policies, ───────┼──▶ cluster ──▶ placement-decisions, dead-letters,
    scheduling-requests, command-outcomes, clock┘                collect policies into node-usage

Nothing happens at import. `build` makes the Faust app; the caller runs it.
"""

from typing import TYPE_CHECKING, Any

from schemas.connection import APP_ID, KafkaSettings
from streams.worker.batches import BatchLimits
from streams.worker.membership import Membership
from streams.worker.publisher import Publisher
from streams.worker.settings import WorkerSettings
from streams.worker.telemetry import Telemetry

if TYPE_CHECKING:
    from streams.worker.runner import StageRunner


def build(worker: WorkerSettings, kafka: KafkaSettings) -> Any:
    """The Faust app of one worker.

    Raises:
        NoBroker: no address is configured and no local broker is announced.
        SettingsError: the data directory cannot be written, or the collect file holds no policy.
        PortUnusable: the metrics port cannot be listened on.
    """
    from streams.worker.broker import broker_credentials, broker_urls
    from streams.worker.transport import WorkerApp

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
        # Topics are made beforehand, with the settings that the contract names.
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
    telemetry = Telemetry(wall_clock=worker.clock == "wall")
    runners = []
    if worker.stages != "cluster":
        runners.append(_add_aggregate(app, worker, kafka, limits, telemetry))
    if worker.stages != "aggregate":
        runners.append(_add_cluster(app, worker, kafka, limits, telemetry))
    app.companions = (Membership(app, runners).run,)
    if worker.metrics_port:
        _add_endpoints(app, worker, kafka, telemetry, runners)
    return app


def _add_aggregate(
    app: Any,
    worker: WorkerSettings,
    kafka: KafkaSettings,
    limits: BatchLimits,
    telemetry: Telemetry,
) -> "StageRunner":
    from streams.agents import aggregate
    from streams.aggregate.collect import Collecting

    collecting = Collecting()
    document = worker.collect_policy()
    if document is not None:
        collecting = Collecting.of(*document.collect.of_nodes)
    return aggregate.register(
        app,
        partitions=kafka.partitions,
        kafka=kafka,
        limits=limits,
        collecting=collecting,
        telemetry=telemetry,
    )


def _add_cluster(
    app: Any,
    worker: WorkerSettings,
    kafka: KafkaSettings,
    limits: BatchLimits,
    telemetry: Telemetry,
) -> "StageRunner":
    from streams.agents import cluster
    from streams.worker.ticker import Ticker

    runner = cluster.register(
        app,
        partitions=kafka.partitions,
        kafka=kafka,
        limits=limits,
        checkpoint_interval_s=worker.checkpoint_interval_s,
        telemetry=telemetry,
    )
    if worker.clock == "wall":
        ticker = runner.clock = Ticker(
            kafka, Publisher(kafka), worker.tick_interval_s, worker.clock_hold_s
        )

        async def clock() -> None:
            await ticker.run(app, runner)

        app.task(clock)
    return runner


def _add_endpoints(
    app: Any,
    worker: WorkerSettings,
    kafka: KafkaSettings,
    telemetry: Telemetry,
    runners: "list[StageRunner]",
) -> None:
    from connectors.process.metrics_endpoint import serve
    from streams.worker.gauges import Gauges
    from streams.worker.health import Health
    from streams.worker.observer import Observer

    gauges = Gauges(wall_clock=worker.clock == "wall")
    telemetry.registry.register(gauges)
    health = Health(lag_records_max=worker.ready_lag_records)
    observer = Observer(kafka, gauges, health)
    for runner in runners:
        observer.watch(runner)
    app.companions = (*app.companions, observer.run)
    checks = {"/healthz": health.deadly, "/readyz": health.hindering}
    serve(worker.metrics_host, worker.metrics_port, telemetry.registry, checks)
