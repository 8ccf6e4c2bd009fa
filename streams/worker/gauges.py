"""What is true of a worker now, for Prometheus: lag, staleness, waiting requests, time behind.

The worker's loop looks at its stages every few seconds (`observer`) and shows what it saw as one
`Look`; a scrape, which runs in another thread, reads the last one. So a scrape never sees half a
batch, and the partitions and clusters of another worker vanish at once when they are lost.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from streams.stage.statistics import ClusterFigures, Figures

#: Most clusters that get a label of their own; the others are reported together.
CLUSTERS_MAX = 100
#: What these are called: no name of a cluster holds a space.
OTHERS = "other clusters"


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
            "1 if a broker answered when it was asked last.",
            value=float(look.broker_up),
        )
        lag = _gauge("input_lag_records", "Records not applied yet.", "stage", "topic", "partition")
        for (stage, topic, partition), records in sorted(look.lags.items()):
            lag.add_metric([stage, topic, str(partition)], records)
        yield lag
        behind = _gauge(
            "clock_lag_seconds", "How far a stage's time is behind.", "stage", "partition"
        )
        for (stage, partition), figures in sorted(look.figures.items()):
            if self._wall_clock and figures.now_ms is not None:
                lag_s = (look.at_ms - figures.now_ms) / 1000
                behind.add_metric([stage, str(partition)], lag_s)
        yield behind
        isolated = _gauge(
            "clusters_set_apart", "Clusters whose records are not applied.", "stage", "partition"
        )
        for (stage, partition), figures in sorted(look.figures.items()):
            isolated.add_metric([stage, str(partition)], figures.set_apart)
        yield isolated
        written = CounterMetricFamily(
            "loadstream_written_bytes",
            "Bytes of keys and values written, by topic.",
            labels=["stage", "topic"],
        )
        for (stage, topic), count in sorted(look.written_bytes.items()):
            written.add_metric([stage, topic], count)
        yield written
        yield from _clusters(bounded(_all_clusters(look)))


def _gauge(name: str, text: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"loadstream_{name}", text, labels=labels)


def _all_clusters(look: Look) -> Iterator[ClusterFigures]:
    for figures in look.figures.values():
        yield from figures.clusters


def _clusters(clusters: Iterable[ClusterFigures]) -> Iterator[Metric]:
    nodes = _gauge("nodes", "Nodes that Kubernetes has named.", "cluster")
    stale = _gauge("stale_nodes_ratio", "Share of nodes without a fresh metric.", "cluster")
    age = _gauge("newest_metric_age_seconds", "Log time since the newest sample.", "cluster")
    pods = _gauge("pods", "Pods that take room.", "cluster")
    pending = _gauge("pending_requests", "Requests that wait for a node.", "cluster")
    hot = _gauge(
        "hot_nodes", "Nodes above a high threshold, or at risk, in the last round.", "cluster"
    )
    moving = _gauge("migrations", "Migrations that wait or are under way.", "cluster")
    estimated = _gauge(
        "nodes_judged_by_estimates",
        "Nodes whose metrics lack a statistic that the policy asks for.",
        "cluster",
    )
    for each in clusters:
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
    yield from (nodes, stale, age, pods, pending, hot, moving, estimated)


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
