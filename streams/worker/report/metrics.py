"""Counters and histograms of a worker, for Prometheus. `observer` has the gauges of the present state.

Every worker has a separate registry. Names follow Prometheus' conventions: units last, counters end in
`_total`. Labels have few values; the number of clusters is limited.
"""

import time
from collections import Counter as Tally
from collections.abc import Iterable, Mapping
from typing import get_args

from prometheus_client import Counter, Gauge, Histogram

from connectors.process.metrics_endpoint import create_process_registry
from schemas.base.refusals import Category
from schemas.messages.clock import AHEAD_MAX_MS
from schemas.messages.decisions import PlacementDecision
from schemas.messages.migrations import Trigger
from schemas.messages.moves import MOVE_COUNTS
from schemas.storage.tables import table_of_key
from schemas.topics.catalog import TOPIC_BY_NAME
from streams.stage.records import InputRecord, StageResult
from streams.stage.statistics import Counts

REQUESTS = "scheduling-requests"

#: Most clusters with a separate label; other clusters are reported together.
CLUSTERS_MAX = 100
#: Label of the other clusters; names of clusters have no spaces.
OTHERS = "other clusters"

#: Retention of topic `scheduling-requests`.
_LATENCY_MAX_MS = TOPIC_BY_NAME[REQUESTS].retention_ms

_RECORDS = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000)
_SECONDS = (0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5)
_LATENCY_SECONDS = (*_SECONDS, 10, 30, 60, 300)
_WAIT_SECONDS = (0, 1, 2, 5, 10, 30, 60, 300, 900, 3600, 4 * 3600, 24 * 3600)
_RECOVERY_SECONDS = (0.1, 0.2, 0.5, 1, 2, 5, 10, 15, 30, 60, 120, 300)


class Metrics:
    """Counters of one worker; `stage` is aggregate or cluster."""

    def __init__(self, *, wall_clock: bool = True) -> None:
        """Create all metrics; with `wall_clock`, workers write log time, and latencies are measured."""
        self.registry = create_process_registry()
        self._wall_clock = wall_clock
        self._in_flight_max: dict[str, int] = {}
        self._labeled: dict[str, None] = {}
        """Clusters with a separate label."""
        self._create_counters()
        self._create_histograms()
        self._create_gauges()

    def _add_counter(self, name: str, text: str, *labels: str) -> Counter:
        return Counter(f"loadstream_{name}", text, ["stage", *labels], registry=self.registry)

    def _add_histogram(self, name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
        return Histogram(
            f"loadstream_{name}", text, ["stage"], buckets=buckets, registry=self.registry
        )

    def _add_gauge(self, name: str, text: str, *labels: str) -> Gauge:
        return Gauge(f"loadstream_{name}", text, ["stage", *labels], registry=self.registry)

    def _create_counters(self) -> None:
        self._records = self._add_counter("records", "Input records.", "topic")
        self._results = self._add_counter(
            "results",
            "Input records by result, such as `applied` or `refused`. `unmeasured_pods` are pods without memory usage in "
            "a sample, which are left out.",
            "result",
        )
        self._outputs = self._add_counter(
            "outputs", "Records published, without dead letters.", "topic"
        )
        self._decisions = self._add_counter(
            "decisions",
            "Placement decisions by outcome and reason. Reason of `waiting`: the filter that refused most nodes, or `postponed` if no filter refused a node. Reason of `refused`: `unplaceable`. Reason of `withdrawn`: `rejected` if the kubelet rejected a bound pod. Otherwise `none`.",
            "outcome",
            "reason",
        )
        self._rounds = self._add_counter(
            "rebalance_rounds",
            "Rounds by result: `moves`, `hot` (hot nodes, no move), `calm`, `stopped` (paused).",
            "result",
        )
        self._commands = self._add_counter(
            "eviction_commands",
            "Eviction commands by trigger (`rebalance`, `request`, `drain`) and mode (`observe`: marked dry).",
            "cluster",
            "trigger",
            "mode",
        )
        self._migrations = self._add_counter(
            "migrations_ended", "Migrations that have ended.", "cluster", "phase", "reason"
        )
        self._moves = self._add_counter(
            "move_outcomes",
            "Ended moves: `all`, and moves with `source_hot_after`, `target_hot_after`, `returned` or `moved_again`.",
            "cluster",
            "outcome",
        )
        self._dead = self._add_counter(
            "dead_letters",
            "Records that could not be read or were refused, by source topic.",
            "topic",
            "category",
        )
        self._rows = self._add_counter("table_rows", "Changed table rows.", "table")
        self.healed = self._add_counter(
            "healed_records",
            "Records that the worker read because Faust did not deliver them.",
            "topic",
        )
        self.read_ahead = self._add_counter(
            "records_read_ahead",
            "Records read before other records, because a clock tick had to wait for them.",
            "topic",
        )
        self.checkpoints = self._add_counter(
            "checkpoints",
            "Checkpoints: `written`, `stopped` (partition lost or worker ended) or `failed`.",
            "result",
        )

    def _create_histograms(self) -> None:
        self._batch = self._add_histogram("batch_records", "Records in a batch.", _RECORDS)
        self._seconds = self._add_histogram(
            "batch_seconds",
            "Time from applying a batch, or its last piece, until it is durable.",
            _SECONDS,
        )
        self._latency = self._add_histogram(
            "decision_latency_seconds",
            "Time from the timestamp of a request until its decision is published. Without values if `LOADSTREAM_WORKER_CLOCK` is `external`.",
            _LATENCY_SECONDS,
        )
        self._wait = self._add_histogram(
            "placement_wait_seconds",
            "Log time from a request until the pod has a node, in whole seconds.",
            _WAIT_SECONDS,
        )
        self._recovery = self._add_histogram(
            "recovery_seconds",
            "Time from the assignment of partitions until work on them begins.",
            _RECOVERY_SECONDS,
        )

    def _create_gauges(self) -> None:
        self._recovered_rows = self._add_gauge(
            "recovered_rows", "Table rows read by the last recovery."
        )
        self._partitions = self._add_gauge(
            "partitions", "Partitions that the worker owns and has recovered."
        )
        self._topic_partitions = self._add_gauge(
            "topic_partitions",
            "Partitions of each topic, shared by all workers of the stage.",
        )
        self._in_flight = self._add_gauge(
            "in_flight_records_max",
            "Largest number of records fetched and not yet durable, since the start.",
        )
        self.standby_copies = self._add_gauge(
            "standby_partitions",
            "Partitions of other workers with a standby copy in this worker.",
        )

    def start_stage(self, stage: str, topics: Iterable[str], partitions: int) -> None:
        """Create the counters of a stage with value 0, so that Prometheus sees their first increase."""
        for topic in topics:
            self._records.labels(stage, topic)
            self.healed.labels(stage, topic)
            self.read_ahead.labels(stage, topic)
            for category in get_args(Category):
                self._dead.labels(stage, topic, category)
            if topic == REQUESTS:
                self._latency.labels(stage)
                self._wait.labels(stage)
                self._start_cluster_stage(stage)
        self._topic_partitions.labels(stage).set(partitions)
        for metric in (
            self._batch,
            self._seconds,
            self._recovery,
            self._partitions,
            self.standby_copies,
            self._in_flight,
        ):
            metric.labels(stage)

    def _start_cluster_stage(self, stage: str) -> None:
        for result in ("written", "stopped", "failed"):
            self.checkpoints.labels(stage, result)
        for result in ("applied", "repeated", "refused"):
            self._results.labels(stage, result)
        for outcome in get_args(PlacementDecision.model_fields["outcome"].annotation):
            if outcome not in ("waiting", "refused"):
                self._decisions.labels(stage, outcome, "none")
        for reason in ("moves", "hot", "calm", "stopped"):
            self._rounds.labels(stage, reason)

    def _start_cluster(self, stage: str, cluster: str) -> None:
        name = self._choose_label(cluster)
        for trigger in get_args(Trigger):
            for mode in ("enforce", "observe"):
                self._commands.labels(stage, name, trigger, mode)
        for phase, reason in (
            ("Succeeded", "Complete"),
            ("Failed", "Timeout"),
            ("Aborted", "Aborted"),
        ):
            self._migrations.labels(stage, name, phase, reason)
        for outcome in MOVE_COUNTS:
            self._moves.labels(stage, name, outcome)

    def _choose_label(self, cluster: str) -> str:
        if cluster not in self._labeled and len(self._labeled) < CLUSTERS_MAX:
            self._labeled[cluster] = None
        return cluster if cluster in self._labeled else OTHERS

    def count_batch(self, stage: str, by_topic: Mapping[str, int], seconds: float) -> None:
        """Count a durable batch."""
        for topic, count in by_topic.items():
            self._records.labels(stage, topic).inc(count)
        self._batch.labels(stage).observe(sum(by_topic.values()))
        self._seconds.labels(stage).observe(seconds)

    def count_result(self, stage: str, result: StageResult) -> None:
        """Count the outputs and rows of a batch of one partition."""
        for topic, count in Tally(output.topic for output in result.outputs).items():
            self._outputs.labels(stage, topic).inc(count)
        for table, count in Tally(table_of_key(row.key) for row in result.rows).items():
            self._rows.labels(stage, table).inc(count)

    def add_counts(self, stage: str, counts: Counts) -> None:
        """Add the counts of a stage."""
        for result, count in counts.results.items():
            self._results.labels(stage, result).inc(count)
        for (topic, category), count in counts.refused.items():
            self._dead.labels(stage, topic, category).inc(count)
        for (outcome, reason), count in counts.decided.items():
            self._decisions.labels(stage, outcome, reason).inc(count)
        for result, count in counts.rounds.items():
            self._rounds.labels(stage, result).inc(count)
        for cluster in counts.clusters:
            self._start_cluster(stage, cluster)
        for (cluster, trigger, mode), count in counts.commands.items():
            self._commands.labels(stage, self._choose_label(cluster), trigger, mode).inc(count)
        for (cluster, phase, reason), count in counts.migrations.items():
            self._migrations.labels(stage, self._choose_label(cluster), phase, reason).inc(count)
        for (cluster, outcome), count in counts.moves.items():
            self._moves.labels(stage, self._choose_label(cluster), outcome).inc(count)
        wait = self._wait.labels(stage)
        for seconds, count in counts.waits_s.items():
            for _ in range(count):
                wait.observe(seconds)

    def observe_latency(self, stage: str, records: Iterable[InputRecord]) -> None:
        """Observe the latency of requests whose decisions are published now.

        A timestamp in the future, or before the retention, is not the time of sending and is ignored.
        """
        if not self._wall_clock:
            return
        now_ms = time.time_ns() / 1_000_000
        for record in records:
            if record.topic == REQUESTS:
                latency_ms = now_ms - record.timestamp_ms
                if -AHEAD_MAX_MS <= latency_ms <= _LATENCY_MAX_MS:
                    self._latency.labels(stage).observe(max(0.0, latency_ms) / 1000)

    def observe_in_flight(self, stage: str, records: int) -> None:
        """Observe the number of records that are fetched and not durable."""
        self._in_flight_max[stage] = max(records, self._in_flight_max.get(stage, 0))
        self._in_flight.labels(stage).set(self._in_flight_max[stage])

    def clear_partitions(self, stage: str) -> None:
        """Report no partitions until the next recovery."""
        self._partitions.labels(stage).set(0)

    def observe_recovery(self, stage: str, partitions: int, rows: int, seconds: float) -> None:
        """Observe a recovery: number of owned partitions, rows, and duration."""
        self._partitions.labels(stage).set(partitions)
        self._recovered_rows.labels(stage).set(rows)
        self._recovery.labels(stage).observe(seconds)
