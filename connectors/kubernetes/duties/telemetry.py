"""Metrics and health of a duty's process.

The event loop takes a snapshot of watches and sources every second. The thread that answers requests
reads only the snapshot, which does not change.
"""

import time
from collections.abc import Callable, Iterator, Sequence

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
        for command in {"bind": ("bind",), "evict": ("evict",)}.get(name, ()):
            for result in _RESULTS:
                self._outcomes.labels(self._cluster, command, result)

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
        records = CounterMetricFamily(
            "loadstream_duty_records_sent", "Records sent to Kafka.", labels=["cluster"]
        )
        records.add_metric([self._cluster], sent)
        yield records
        yield from _watch_metrics(self._cluster, watched)
        yield from _source_metrics(self._cluster, sources)


def _watch_metrics(cluster: str, watched: Sequence[CollectionHealth]) -> Iterator[Metric]:
    label_names = ["cluster", "collection"]
    objects = GaugeMetricFamily(
        "loadstream_watch_objects", "Objects reported now.", labels=label_names
    )
    left_out = GaugeMetricFamily(
        "loadstream_watch_objects_left_out",
        "Objects that do not fit into a record.",
        labels=label_names,
    )
    lists = CounterMetricFamily(
        "loadstream_watch_lists",
        "Completed lists; a steady rise means that the watch breaks off repeatedly.",
        labels=label_names,
    )
    failing = GaugeMetricFamily(
        "loadstream_watch_failing_seconds",
        "Time since a request last succeeded; 0: the last request succeeded.",
        labels=label_names,
    )
    for health in watched:
        labels = [cluster, health.path]
        objects.add_metric(labels, health.objects)
        left_out.add_metric(labels, health.left_out)
        lists.add_metric(labels, health.lists)
        failing.add_metric(labels, health.failing_s or 0.0)
    yield from (objects, left_out, lists, failing)


def _source_metrics(cluster: str, sources: Sequence[SourceReport]) -> Iterator[Metric]:
    success = GaugeMetricFamily(
        "loadstream_source_last_success_timestamp_seconds",
        "When a node was last read, by the collector's clock.",
        labels=["cluster", "source", "node"],
    )
    failing = GaugeMetricFamily(
        "loadstream_source_failing_nodes",
        "Nodes that could not be read at the last attempt.",
        labels=["cluster", "source"],
    )
    failures = CounterMetricFamily(
        "loadstream_source_failures",
        "Attempts that failed, by cause, such as `unreachable`, `timeout`, `certificate`, `credentials`, `forbidden`.",
        labels=["cluster", "source", "cause"],
    )
    unreadable = GaugeMetricFamily(
        "loadstream_source_unreadable",
        "1: nothing of the source can be read now, for this cause; no series otherwise.",
        labels=["cluster", "source", "cause"],
    )
    behind = GaugeMetricFamily(
        "loadstream_source_behind_seconds",
        "How long the oldest node has waited to be read; steadily above 0: too many nodes.",
        labels=["cluster", "source"],
    )
    notes = GaugeMetricFamily(
        "loadstream_source_notes",
        "Current problems, which the log describes, such as a failed query or a wrong clock.",
        labels=["cluster", "source"],
    )
    events = CounterMetricFamily(
        "loadstream_source_events",
        "Events of a source: `samples`, `skipped` readings, samples `overwritten` before they were sent; `held_back`, `filled_in`, `took_over` and `not_newer` because of other sources; `of_no_node`, series of Prometheus without a node; `pods_unreadable`, entries of metrics_api.",
        labels=["cluster", "source", "event"],
    )
    skew = GaugeMetricFamily(
        "loadstream_source_clock_skew_seconds",
        "A node's clock minus the collector's, if known.",
        labels=["cluster", "source", "node"],
    )
    for source in sources:
        at = [cluster, source.source]
        failing.add_metric(at, sum(node.failure is not None for node in source.nodes))
        for cause, count in source.failures.items():
            failures.add_metric([*at, cause], count)
        for event, count in source.counts.items():
            events.add_metric([*at, event], count)
        if source.failure is not None:
            unreadable.add_metric([*at, source.failure.cause], 1)
        behind.add_metric(at, source.behind_s)
        notes.add_metric(at, len(source.notes))
        for node in source.nodes:
            if node.succeeded_at_ms is not None:
                success.add_metric([*at, node.node], node.succeeded_at_ms / 1_000)
            if node.clock_skew_ms is not None:
                skew.add_metric([*at, node.node], node.clock_skew_ms / 1_000)
    yield from (success, failing, failures, unreadable, behind, notes, events, skew)
