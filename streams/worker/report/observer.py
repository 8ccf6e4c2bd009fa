"""Looks at the stages of a worker every few seconds, from within its event loop.

The results are the `Look` that `/metrics` shows as gauges, and the signs of life that `/healthz`
and `/readyz` use. A scrape, which runs in another thread, reads the last `Look`. So a scrape never
sees half a batch, and partitions and clusters vanish from the metrics when the worker loses them.

The brokers are asked for the ends of topics over a separate connection: so a broker that is away
shows, and neither the answer nor its absence holds up the work. Nothing here can stop a worker.
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

#: Time between two signs of life, and between two looks, in seconds. After partitions were taken
#: over the next look comes with the next sign of life.
BEAT_S = 1.0
LOOK_S = 5.0


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one time."""

    at_ms: int = 0
    """Wall clock, in ms since 1970."""
    lags: Mapping[tuple[str, str, int], int] = field(default_factory=dict)
    """Records not applied yet, by stage, topic and partition."""
    figures: Mapping[tuple[str, int], Figures] = field(default_factory=dict)
    """By stage and partition."""
    written_bytes: Mapping[tuple[str, str], int] = field(default_factory=dict)
    """Bytes of the values that the brokers were given since the worker's start, by stage and topic."""
    broker_up: bool = False


class Gauges(Collector):
    """Shows the last look; register it in a registry."""

    def __init__(self, *, wall_clock: bool = True) -> None:
        """`wall_clock`: the log's time is this clock's, so that its lag means something."""
        self._wall_clock = wall_clock
        self._look = Look()

    def show(self, look: Look) -> None:
        """From now on this is what is reported."""
        self._look = look

    def collect(self) -> Iterator[Metric]:
        """All metrics; those without anything to tell are there without samples."""
        look = self._look
        yield GaugeMetricFamily(
            "loadstream_broker_up",
            "1 if a broker answered the last check.",
            value=float(look.broker_up),
        )
        lag = _gauge(
            "input_lag_records",
            "Records not applied yet: end of the topic minus position.",
            "stage",
            "topic",
            "partition",
        )
        for (stage, topic, partition), records in sorted(look.lags.items()):
            lag.add_metric([stage, topic, str(partition)], records)
        yield lag
        behind = _gauge(
            "clock_lag_seconds",
            "How far a stage's time (of the last tick applied, or of the samples) is behind the clock.",
            "stage",
            "partition",
        )
        isolated = _gauge(
            "clusters_set_apart",
            "Clusters that are set apart after internal errors: their records are not applied.",
            "stage",
            "partition",
        )
        for (stage, partition), figures in sorted(look.figures.items()):
            isolated.add_metric([stage, str(partition)], figures.set_apart)
            if self._wall_clock and figures.now_ms is not None:
                lag_s = (look.at_ms - figures.now_ms) / 1000
                behind.add_metric([stage, str(partition)], lag_s)
        yield from (behind, isolated)
        written = CounterMetricFamily(
            "loadstream_written_bytes",
            "Bytes written to the journal, changelogs and outputs.",
            labels=["stage", "topic"],
        )
        for (stage, topic), count in sorted(look.written_bytes.items()):
            written.add_metric([stage, topic], count)
        yield written
        yield from _clusters(bounded(_all_clusters(look)))


class Observer:
    """Looks at stages; `run` it for as long as the worker lives."""

    def __init__(self, settings: KafkaSettings, gauges: Gauges, health: Health) -> None:
        self._brokers = Brokers(settings)
        self._gauges = gauges
        self._health = health
        self._stages: list[tuple[Partitions, Publisher]] = []

    def watch(self, partitions: Partitions, pipeline: Pipeline, publisher: Publisher) -> None:
        """Look at this stage too."""
        self._stages.append((partitions, publisher))
        self._health.watch(partitions, pipeline)

    async def run(self) -> None:
        """Look on until cancelled."""
        looking = asyncio.create_task(self._look_on())
        try:
            while True:
                self._health.beat()
                await asyncio.sleep(BEAT_S)
        finally:
            looking.cancel()
            await asyncio.gather(looking, return_exceptions=True)
            await self.stop()

    async def stop(self) -> None:
        """Disconnect."""
        await self._brokers.leave()

    async def _look_on(self) -> None:
        while True:
            try:
                await self.look()
            except Exception:
                # A defect of the view must not end the work.
                logger.exception("looking at the stages failed")
            due_s = time.monotonic() + LOOK_S
            await asyncio.sleep(BEAT_S)
            while time.monotonic() < due_s and not self._health.uncounted():
                await asyncio.sleep(BEAT_S)

    async def look(self) -> None:
        """Look once."""
        places = [
            (owned, topic, partition)
            for owned, _ in self._stages
            for partition in owned.stages
            for topic in sorted(owned.topics)
        ]
        spans = await self._brokers.spans({(topic, partition) for _, topic, partition in places})
        lags = {}
        if spans is not None:
            for owned, topic, partition in places:
                # Partitions can be lost while the brokers are asked.
                if partition in owned.stages and (topic, partition) in spans:
                    first, end = spans[topic, partition]
                    following = owned.following(topic, partition)
                    lags[owned.stage, topic, partition] = max(0, end - max(first, following))
            counted = {(owned.stage, partition) for owned, _, partition in places}
            by_stage = {owned.stage: 0 for owned, _ in self._stages}
            for (stage, _, _), records in lags.items():
                by_stage[stage] += records
            self._health.heard(by_stage, counted)
        self._gauges.show(
            Look(
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
        )


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"loadstream_{name}", text, labels=labels)


def _all_clusters(look: Look) -> Iterator[ClusterFigures]:
    for figures in look.figures.values():
        yield from figures.clusters


def _clusters(clusters: Iterable[ClusterFigures]) -> Iterator[Metric]:
    nodes = _gauge("nodes", "Nodes of the cluster.", "cluster")
    stale = _gauge("stale_nodes_ratio", "Share of nodes without a fresh metric, 0 to 1.", "cluster")
    age = _gauge(
        "newest_metric_age_seconds", "Log time since the newest sample of any node.", "cluster"
    )
    pods = _gauge("pods", "Pods that take room.", "cluster")
    pending = _gauge("pending_requests", "Requests that wait for a node.", "cluster")
    hot = _gauge(
        "hot_nodes",
        "Nodes that the last round found above a high threshold or at risk; 0 while rounds are paused.",
        "cluster",
    )
    moving = _gauge("migrations", "Migrations that wait or proceed.", "cluster")
    estimated = _gauge(
        "nodes_judged_by_estimates",
        "Nodes whose metric lacks a statistic of the policy, judged by estimates of their pods.",
        "cluster",
    )
    usage = _gauge(
        "hot_node_usage_ratio",
        "Usage as a share of capacity of the nodes (of their prod pods if only these are hot) that the last round found hot: the 20 hottest of each pool.",
        "cluster",
        "node",
        "resource",
    )
    for each in clusters:
        for (node, resource), share in each.hot_usage.items():
            usage.add_metric([each.cluster, node, resource], share)
        labels = [each.cluster]
        nodes.add_metric(labels, each.nodes)
        pods.add_metric(labels, each.pods)
        pending.add_metric(labels, each.pending_requests)
        hot.add_metric(labels, each.hot_nodes)
        moving.add_metric(labels, each.migrations)
        estimated.add_metric(labels, each.nodes_by_estimates)
        if each.nodes:
            stale.add_metric(labels, each.stale_nodes / each.nodes)
        if each.newest_metric_age_ms is not None:
            age.add_metric(labels, each.newest_metric_age_ms / 1000)
    yield from (nodes, stale, age, pods, pending, hot, moving, estimated, usage)


def bounded(clusters: Iterable[ClusterFigures]) -> list[ClusterFigures]:
    """The largest clusters by name, and the others as one.

    Of clusters of one size, the first by name. The age of the others is that of the most outdated
    one.
    """
    ranked = sorted(clusters, key=lambda each: (-each.nodes, each.cluster))
    named, rest = ranked[:CLUSTERS_MAX], ranked[CLUSTERS_MAX:]
    if rest:
        ages = [each.newest_metric_age_ms for each in rest if each.newest_metric_age_ms is not None]
        named.append(
            ClusterFigures(
                cluster=OTHERS,
                nodes=sum(each.nodes for each in rest),
                stale_nodes=sum(each.stale_nodes for each in rest),
                pods=sum(each.pods for each in rest),
                pending_requests=sum(each.pending_requests for each in rest),
                hot_nodes=sum(each.hot_nodes for each in rest),
                migrations=sum(each.migrations for each in rest),
                nodes_by_estimates=sum(each.nodes_by_estimates for each in rest),
                newest_metric_age_ms=max(ages, default=None),
            )
        )
    return named
