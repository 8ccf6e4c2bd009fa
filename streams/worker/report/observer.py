"""Observes the stages of a worker every few seconds, in its event loop.

The result is a `Snapshot`, which `/metrics` shows as gauges, and the data of `/healthz` and `/readyz`. A
scrape runs in another thread and reads the last snapshot, so it never sees half a batch.

The ends of topics are requested over a separate connection, so that missing answers do not delay batches.
Errors here do not stop the worker.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from connectors.kafka.extents import Brokers
from schemas.settings.connection import KafkaSettings
from streams.stage.statistics import ClusterFigures, Figures
from streams.worker.partitions import Partitions
from streams.worker.report.health import Health
from streams.worker.report.metrics import CLUSTERS_MAX, OTHERS
from streams.worker.store.pipeline import Pipeline
from streams.worker.store.publisher import Publisher

logger = logging.getLogger(__name__)

#: Time between two heartbeats of the event loop, in seconds.
BEAT_S = 1.0
#: Time between two snapshots, in seconds; `BEAT_S` after a takeover.
CHECK_INTERVAL_S = 5.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """State of the stages at one time."""

    at_ms: int = 0
    """Wall clock, in ms since 1970."""
    lags: Mapping[tuple[str, str, int], int] = field(default_factory=dict)
    """Records not applied yet, by stage, topic and partition."""
    figures: Mapping[tuple[str, int], Figures] = field(default_factory=dict)
    """By stage and partition."""
    written_bytes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Bytes written since the worker's start, by stage and topic."""
    broker_up: bool = False


class Gauges(Collector):
    """Reports the last snapshot to a registry of Prometheus."""

    def __init__(self, *, wall_clock: bool = True) -> None:
        """With `wall_clock`, workers write log time, and its lag is reported."""
        self._wall_clock = wall_clock
        self.snapshot = Snapshot()

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics, also those without samples."""
        snapshot = self.snapshot
        yield GaugeMetricFamily(
            "loadstream_broker_up",
            "1 if a broker answered the last check.",
            value=float(snapshot.broker_up),
        )
        lag = _create_gauge(
            "input_lag_records",
            "Records not applied yet: end of the topic minus position.",
            "stage",
            "topic",
            "partition",
        )
        for (stage, topic, partition), records in sorted(snapshot.lags.items()):
            lag.add_metric([stage, topic, str(partition)], records)
        yield lag
        clock_lag = _create_gauge(
            "clock_lag_seconds",
            "The worker's clock minus log time (last applied tick, or newest sample).",
            "stage",
            "partition",
        )
        set_apart = _create_gauge(
            "clusters_set_apart",
            "Clusters that are set apart after internal errors: their records are not applied.",
            "stage",
            "partition",
        )
        for (stage, partition), figures in sorted(snapshot.figures.items()):
            set_apart.add_metric([stage, str(partition)], figures.set_apart)
            if self._wall_clock and figures.now_ms is not None:
                lag_s = (snapshot.at_ms - figures.now_ms) / 1000
                clock_lag.add_metric([stage, str(partition)], lag_s)
        yield from (clock_lag, set_apart)
        written = CounterMetricFamily(
            "loadstream_written_bytes",
            "Bytes written to the journal, changelogs and outputs.",
            labels=["stage", "topic"],
        )
        for (stage, topic), count in sorted(snapshot.written_bytes.items()):
            written.add_metric([stage, topic], count)
        yield written
        clusters = (
            cluster for figures in snapshot.figures.values() for cluster in figures.clusters
        )
        yield from _build_cluster_gauges(limit_clusters(clusters))


class Observer:
    """Takes snapshots of stages; `run` is a task of the worker."""

    def __init__(self, settings: KafkaSettings, gauges: Gauges, health: Health) -> None:
        self._brokers = Brokers(settings)
        self._gauges = gauges
        self._health = health
        self._stages: list[tuple[Partitions, Publisher]] = []

    def add_stage(self, partitions: Partitions, pipeline: Pipeline, publisher: Publisher) -> None:
        self._stages.append((partitions, publisher))
        self._health.add_stage(partitions, pipeline)

    async def run(self) -> None:
        """Take snapshots until cancelled."""
        due_at_s = 0.0
        try:
            while True:
                self._health.beat()
                if time.monotonic() >= due_at_s or self._health.find_uncounted():
                    due_at_s = time.monotonic() + CHECK_INTERVAL_S
                    try:
                        await self.take_snapshot()
                    except Exception:
                        logger.exception("the stages could not be observed")
                await asyncio.sleep(BEAT_S)
        finally:
            await self.stop()

    async def stop(self) -> None:
        await self._brokers.leave()

    async def take_snapshot(self) -> None:
        inputs = [
            (owned, topic, partition)
            for owned, _ in self._stages
            for partition in owned.stages
            for topic in sorted(owned.topics)
        ]
        spans = await self._brokers.spans({(topic, partition) for _, topic, partition in inputs})
        lags = {}
        if spans is not None:
            for owned, topic, partition in inputs:
                # The partition may have been lost meanwhile.
                if partition in owned.stages and (topic, partition) in spans:
                    first, end = spans[topic, partition]
                    next_offset = owned.next_offset(topic, partition)
                    lags[owned.stage, topic, partition] = max(0, end - max(first, next_offset))
            counted = {(owned.stage, partition) for owned, _, partition in inputs}
            by_stage = {owned.stage: 0 for owned, _ in self._stages}
            for (stage, _, _), records in lags.items():
                by_stage[stage] += records
            self._health.set_lags(by_stage, counted)
        self._gauges.snapshot = Snapshot(
            at_ms=time.time_ns() // 1_000_000,
            lags=lags,
            figures={
                (owned.stage, partition): stage.figures()
                for owned, _ in self._stages
                for partition, stage in owned.stages.items()
            },
            written_bytes={
                (owned.stage, topic): count
                for owned, publisher in self._stages
                for topic, count in publisher.written_bytes.items()
            },
            broker_up=spans is not None,
        )


def _create_gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"loadstream_{name}", text, labels=labels)


def _build_cluster_gauges(clusters: Iterable[ClusterFigures]) -> Iterator[Metric]:
    nodes = _create_gauge("nodes", "Nodes of the cluster.", "cluster")
    stale = _create_gauge(
        "stale_nodes_ratio", "Share of nodes without a fresh metric, 0 to 1.", "cluster"
    )
    age = _create_gauge(
        "newest_metric_age_seconds", "Log time since the newest sample of any node.", "cluster"
    )
    pods = _create_gauge("pods", "Pods that take up room on a node.", "cluster")
    pending = _create_gauge("pending_requests", "Requests that wait for a node.", "cluster")
    hot = _create_gauge(
        "hot_nodes",
        "Nodes above a high threshold or at risk in the last round; 0 while rounds are paused.",
        "cluster",
    )
    migrations = _create_gauge("migrations", "Migrations that have not ended.", "cluster")
    estimated = _create_gauge(
        "nodes_judged_by_estimates",
        "Nodes with a metric that lacks a statistic of the policy; estimates of their pods are used.",
        "cluster",
    )
    usage = _create_gauge(
        "hot_node_usage_ratio",
        "Usage of nodes that were hot in the last round, as a share of capacity: the 20 hottest nodes of each pool. Usage of prod pods if only the prod pods of a node were hot.",
        "cluster",
        "node",
        "resource",
    )
    for cluster in clusters:
        for (node, resource), share in cluster.hot_usage.items():
            usage.add_metric([cluster.cluster, node, resource], share)
        labels = [cluster.cluster]
        nodes.add_metric(labels, cluster.nodes)
        pods.add_metric(labels, cluster.pods)
        pending.add_metric(labels, cluster.pending_requests)
        hot.add_metric(labels, cluster.hot_nodes)
        migrations.add_metric(labels, cluster.migrations)
        estimated.add_metric(labels, cluster.nodes_by_estimates)
        if cluster.nodes:
            stale.add_metric(labels, cluster.stale_nodes / cluster.nodes)
        if cluster.newest_metric_age_ms is not None:
            age.add_metric(labels, cluster.newest_metric_age_ms / 1000)
    yield from (nodes, stale, age, pods, pending, hot, migrations, estimated, usage)


def limit_clusters(clusters: Iterable[ClusterFigures]) -> list[ClusterFigures]:
    """Return the `CLUSTERS_MAX` largest clusters, and the sum of all other clusters as `OTHERS`.

    Clusters of the same size are ordered by name. The age of `OTHERS` is the largest age.
    """
    ranked = sorted(clusters, key=lambda cluster: (-cluster.nodes, cluster.cluster))
    shown, others = ranked[:CLUSTERS_MAX], ranked[CLUSTERS_MAX:]
    if others:
        ages = [
            cluster.newest_metric_age_ms
            for cluster in others
            if cluster.newest_metric_age_ms is not None
        ]
        shown.append(
            ClusterFigures(
                cluster=OTHERS,
                nodes=sum(cluster.nodes for cluster in others),
                stale_nodes=sum(cluster.stale_nodes for cluster in others),
                pods=sum(cluster.pods for cluster in others),
                pending_requests=sum(cluster.pending_requests for cluster in others),
                hot_nodes=sum(cluster.hot_nodes for cluster in others),
                migrations=sum(cluster.migrations for cluster in others),
                nodes_by_estimates=sum(cluster.nodes_by_estimates for cluster in others),
                newest_metric_age_ms=max(ages, default=None),
            )
        )
    return shown
