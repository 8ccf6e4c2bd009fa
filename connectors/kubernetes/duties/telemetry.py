"""Metrics and health of a duty's process.

The event loop takes a snapshot of watches and sources every second. The thread that answers requests
reads only the snapshot, which does not change.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import Counter, Gauge
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric

from connectors.kubernetes.sources.health import SourceReport
from connectors.kubernetes.watch.state_watch import CollectionHealth
from connectors.process.metrics_endpoint import create_process_registry
from schemas.messages.commands import CommandOutcome

#: A process whose event loop was blocked for this time should be restarted, in seconds.
BLOCKED_S = 60.0
_RESULTS = ("done", "failed", "refused", "expired", "dry")


class DutyTelemetry:
    def __init__(self, cluster: str) -> None:
        self.registry = create_process_registry()
        self._cluster = cluster
        self._watch_health: Callable[[], Sequence[CollectionHealth]] = list
        self._source_health: Callable[[], Sequence[SourceReport]] = list
        self._snapshot: tuple[int, Sequence[CollectionHealth], Sequence[SourceReport]] = (0, (), ())
        """Number of sent records, health of watches, health of sources."""
        self._beat_s = time.monotonic()
        self._active_duties: set[str] = set()
        self._active = Gauge(
            "loadstream_duty_active",
            "1: this process is active; 0: it is a standby, which has no metrics of watches and sources.",
            ["cluster", "duty"],
            registry=self.registry,
        )
        self._outcomes = Counter(
            "loadstream_duty_outcomes",
            "Outcomes of commands: `done`, `failed`, `refused`, `expired`, `dry`.",
            ["cluster", "command", "result"],
            registry=self.registry,
        )
        self.registry.register(self)

    def add_duty(self, name: str) -> None:
        """Create the duty's series with initial values."""
        self._active.labels(self._cluster, name).set(0)
        if name in ("bind", "evict"):
            for result in _RESULTS:
                self._outcomes.labels(self._cluster, name, result)

    def set_watch(self, health: Callable[[], Sequence[CollectionHealth]]) -> None:
        self._watch_health = health

    def set_sources(self, health: Callable[[], Sequence[SourceReport]]) -> None:
        self._source_health = health

    def count_outcome(self, outcome: CommandOutcome) -> None:
        self._outcomes.labels(self._cluster, outcome.command, outcome.result).inc()

    def set_active(self, duty: str, *, active: bool) -> None:
        """Set whether this process is active.

        Watches and sources of earlier terms are not reported.
        """
        self._active.labels(self._cluster, duty).set(active)
        (self._active_duties.add if active else self._active_duties.discard)(duty)

    def take_snapshot(self, sent: int) -> None:
        """Take a snapshot; call it in the event loop every second."""
        self._beat_s = time.monotonic()
        self._snapshot = (
            sent,
            tuple(self._watch_health()) if "watch" in self._active_duties else (),
            tuple(self._source_health()) if "collect" in self._active_duties else (),
        )

    def problems(self) -> list[str]:
        """Return why the process should be restarted; callable from any thread."""
        blocked_s = time.monotonic() - self._beat_s
        if blocked_s <= BLOCKED_S:
            return []
        return [
            f"the event loop has been blocked for {blocked_s:.0f} s; expected at most {BLOCKED_S:.0f}"
        ]

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the newest snapshot; called by the registry."""
        sent, watched, sources = self._snapshot
        yield _family(
            CounterMetricFamily, "loadstream_duty_records_sent", "Records sent to Kafka.",
            ["cluster"], [([self._cluster], sent)],
        )  # fmt: skip
        yield from _watch_metrics(self._cluster, watched)
        yield from _source_metrics(self._cluster, sources)


def _family(
    kind: type[GaugeMetricFamily | CounterMetricFamily],
    name: str,
    text: str,
    labels: Sequence[str],
    samples: Iterable[tuple[Sequence[str], float]],
) -> Metric:
    """Return a metric; each sample has the values of the labels, and a number."""
    family = kind(name, text, labels=labels)
    for values, number in samples:
        family.add_metric(values, number)
    return family


def _watch_metrics(cluster: str, watched: Sequence[CollectionHealth]) -> Iterator[Metric]:
    labels = ("cluster", "collection")
    collections = [((cluster, health.path), health) for health in watched]
    yield _family(
        GaugeMetricFamily, "loadstream_watch_objects", "Objects reported now.", labels,
        [(values, health.objects) for values, health in collections],
    )  # fmt: skip
    yield _family(
        GaugeMetricFamily, "loadstream_watch_objects_left_out",
        "Objects that do not fit into a record.", labels,
        [(values, health.left_out) for values, health in collections],
    )  # fmt: skip
    yield _family(
        CounterMetricFamily, "loadstream_watch_lists",
        "Completed lists; a steady rise means that the watch breaks off repeatedly.", labels,
        [(values, health.lists) for values, health in collections],
    )  # fmt: skip
    yield _family(
        GaugeMetricFamily, "loadstream_watch_failing_seconds",
        "Time since a request last succeeded; 0: the last request succeeded.", labels,
        [(values, health.failing_s or 0.0) for values, health in collections],
    )  # fmt: skip


def _source_metrics(cluster: str, reports: Sequence[SourceReport]) -> Iterator[Metric]:
    labels = ("cluster", "source")
    sources = [((cluster, report.source), report) for report in reports]
    nodes = [((*values, node.node), node) for values, report in sources for node in report.nodes]
    yield _family(
        GaugeMetricFamily, "loadstream_source_last_success_timestamp_seconds",
        "When a node was last read, by the collector's clock.", (*labels, "node"),
        [(at, node.succeeded_at_ms / 1_000) for at, node in nodes if node.succeeded_at_ms is not None],
    )  # fmt: skip
    yield _family(
        GaugeMetricFamily, "loadstream_source_failing_nodes",
        "Nodes that could not be read at the last attempt.", labels,
        [(at, sum(node.failure is not None for node in report.nodes)) for at, report in sources],
    )  # fmt: skip
    yield _family(
        CounterMetricFamily, "loadstream_source_failures",
        "Attempts that failed, by cause, such as `unreachable`, `timeout`, `certificate`, `credentials`, `forbidden`.",
        (*labels, "cause"),
        [((*at, cause), count) for at, report in sources for cause, count in report.failures.items()],
    )  # fmt: skip
    yield _family(
        GaugeMetricFamily, "loadstream_source_unreadable",
        "1: nothing of the source can be read now, for this cause; no series otherwise.",
        (*labels, "cause"),
        [((*at, report.failure.cause), 1) for at, report in sources if report.failure is not None],
    )  # fmt: skip
    yield _family(
        GaugeMetricFamily, "loadstream_source_behind_seconds",
        "How long the oldest node has waited to be read; steadily above 0: too many nodes.", labels,
        [(at, report.behind_s) for at, report in sources],
    )  # fmt: skip
    yield _family(
        GaugeMetricFamily, "loadstream_source_notes",
        "Current problems, which the log describes, such as a failed query or a wrong clock.", labels,
        [(at, len(report.notes)) for at, report in sources],
    )  # fmt: skip
    yield _family(
        CounterMetricFamily, "loadstream_source_events",
        "Events of a source: `samples`, `skipped` readings, samples `overwritten` before they were sent; `held_back`, `filled_in`, `took_over` and `not_newer` because of other sources; `of_no_node`, series of Prometheus without a node; `pods_unreadable`, entries of metrics_api.",
        (*labels, "event"),
        [((*at, event), count) for at, report in sources for event, count in report.counts.items()],
    )  # fmt: skip
    yield _family(
        GaugeMetricFamily, "loadstream_source_clock_skew_seconds",
        "A node's clock minus the collector's, if known.", (*labels, "node"),
        [(at, node.clock_skew_ms / 1_000) for at, node in nodes if node.clock_skew_ms is not None],
    )  # fmt: skip
