"""One partition of the cluster stage: a pure fold over input records.

    records (node-state, pod-lifecycle, scheduling-requests, policies, node-metrics, clock,
             command-outcomes) ──▶ decisions and commands, changed table rows, dead letters

The caller passes each record once, in the order of the offsets of its topic. Batches only bound how
much is made durable at once; they do not change decisions. A record that cannot be read or applied
becomes a dead letter. An exception affects one cluster only (see `clusters`).
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from schemas.base.limits import VALUE_BYTES_MAX
from schemas.base.refusals import Refusal, check_not_future
from schemas.messages.clock import AHEAD_MAX_MS, ClockTick
from schemas.messages.migrations import LIVE
from schemas.messages.moves import MOVE_COUNTS
from schemas.messages.policies import PolicyRecord
from schemas.storage.rows import PartitionRow
from schemas.storage.tables import PARTITION, row_key
from schemas.topics.codec import decode, encode
from schemas.topics.partitions import check_key, check_partition
from streams.cluster import failures
from streams.cluster.clusters import BatchRecord, Clusters, Recall
from streams.cluster.state import ClusterState
from streams.cluster.tables import group_rows, read_rows
from streams.migration.registry import is_live
from streams.stage.records import (
    DamagedTable,
    InputRecord,
    OutputMessage,
    OutputRecord,
    RowChange,
    StageResult,
    build_dead_letters,
    refuse_output,
)
from streams.stage.statistics import ClusterFigures, Counts, Figures

logger = logging.getLogger(__name__)

#: Most clusters in one partition.
CLUSTERS_MAX = 1_000

#: The pod was placed or withdrawn, or its reservation expired.
NO_REASON = "none"
#: The pod was refused: it needs something unsupported, or too many requests wait.
UNPLACEABLE = "unplaceable"
#: The kubelet rejected the pod after its binding.
REJECTED = "rejected"
#: The pod waits though no filter refused a node: there are no nodes, the cluster is paused, or a
#: binding failed.
POSTPONED = "postponed"


class ClusterStage:
    """The clusters of one partition."""

    def __init__(self, partition: int, partitions: int, recall: Recall | None = None) -> None:
        """Start without clusters.

        `recall` returns the rows of a cluster, to restore it after a failure; None: no rows are kept.
        """
        self.partition = partition
        self.partitions = partitions
        self.counts = Counts()
        """Counts of records and decisions since the last `take_counts`."""
        self._clusters = Clusters(partition, partitions, recall)
        self.positions: dict[str, int] = {}
        """Offset of the newest applied record of each input topic."""
        self.now_ms: int | None = None
        """Log time; None before the first clock tick."""

    @property
    def clusters(self) -> dict[str, ClusterState]:
        return self._clusters.states

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        start_ms, old_names = self.now_ms, set(self.clusters)
        names = {*old_names, *self._clusters.failures.list_apart()}
        batch: list[BatchRecord] = []
        for record in records:
            self.positions[record.topic] = record.offset
            batch.append(self._read(record, names))
        rows = self._clusters.apply(batch, start_ms)
        self.counts.clusters.update(dict.fromkeys(sorted(set(self.clusters) - old_names)))
        outputs: list[OutputRecord] = []
        dead_letters: list[OutputRecord] = []
        for batch_record in batch:
            self._count(batch_record)
            if batch_record.refusal is not None:
                dead_letters += build_dead_letters(batch_record.source, batch_record.refusal)
            for output in (*batch_record.outputs, *batch_record.notices):
                if len(output.record.value) <= VALUE_BYTES_MAX:
                    outputs.append(output.record)
                else:
                    refusal = refuse_output(output.record)
                    dead_letters += build_dead_letters(batch_record.source, refusal)
        partition_row = PartitionRow(
            partition=self.partition, now_ms=self.now_ms, offsets=self.positions
        )
        rows.append(RowChange(row_key(self.partition, "", PARTITION), encode(partition_row)))
        return StageResult(tuple(outputs), tuple(rows), tuple(dead_letters))

    # --- records ----------------------------------------------------------------------------------

    def _read(self, record: InputRecord, names: set[str]) -> BatchRecord:
        """Decode a record and advance log time; add a new cluster to `names`, the names of all clusters."""
        batch_record = BatchRecord(record, dict(self.positions))
        try:
            message = decode(record.topic, record.value)
        except Exception as error:
            logger.exception("%s offset %d cannot be read", record.topic, record.offset)
            message = Refusal("internal", f"{type(error).__name__}: {error}")
        if isinstance(message, Refusal):
            batch_record.refusal = message
        elif isinstance(message, ClockTick):
            batch_record.refusal = self._check_tick(message, record.refused_at_ms)
            is_older = self.now_ms is not None and message.now_ms < self.now_ms
            if batch_record.refusal is None and not is_older:
                batch_record.message, self.now_ms = message, message.now_ms
        else:
            batch_record.refusal = self._check_message(message, record, names)
            if batch_record.refusal is None:
                batch_record.message = message
        batch_record.now_ms = self.now_ms
        return batch_record

    def _check_message(self, message: Any, record: InputRecord, names: set[str]) -> Refusal | None:
        refusal = check_partition(record.key, self.partition, self.partitions) or check_key(
            record.topic, record.key, message
        )
        if refusal is not None:
            return refusal
        if message.cluster not in names and len(names) >= CLUSTERS_MAX:
            return Refusal("limit", f"more than {CLUSTERS_MAX} clusters in one partition")
        names.add(message.cluster)
        return None

    def _check_tick(self, tick: ClockTick, refused_at_ms: int | None) -> Refusal | None:
        """Refuse a tick of another partition, or one too far ahead of the worker's clock.

        `refused_at_ms` is the time of the worker's clock if it refused the tick, else None.
        """
        if tick.partition != self.partition:
            return Refusal(
                "misplaced",
                f"partition is {tick.partition}; expected {self.partition}, where the tick was found",
            )
        if refused_at_ms is None:
            return None
        return check_not_future(tick.now_ms, refused_at_ms, AHEAD_MAX_MS, "now_ms")

    def prepare(self) -> bool:
        """Prepare the next rebalance rounds, a few nodes per call; return False if none needs it."""
        return any(state.rebalancer.prepare() for state in self.clusters.values())

    # --- metrics ----------------------------------------------------------------------------------

    def take_counts(self) -> Counts:
        counts, self.counts = self.counts, Counts()
        return counts

    def figures(self) -> Figures:
        clusters = tuple(self._compute_all_figures())
        nodes = sum(cluster.nodes for cluster in clusters)
        return Figures(self.now_ms, nodes, clusters, len(self._clusters.failures.list_apart()))

    def _compute_all_figures(self) -> Iterator[ClusterFigures]:
        for name in sorted(self.clusters):
            try:
                yield compute_figures(self.clusters[name])
            except Exception:
                logger.exception("cluster %s: cannot compute figures", name)

    def _count(self, batch_record: BatchRecord) -> None:
        refusal = batch_record.refusal
        if refusal is None:
            self.counts.results["applied"] += 1
        else:
            self.counts.results["refused"] += 1
            self.counts.refused[batch_record.source.topic, refusal.category] += 1
        message = batch_record.message
        if isinstance(message, PolicyRecord) and refusal is None:
            state = self.clusters.get(message.cluster)
            if state is not None:
                self.counts.policies[message.cluster] = describe_policy(state)
        for output in (*batch_record.outputs, *batch_record.notices):
            count_output(self.counts, output.message)

    # --- rows -----------------------------------------------------------------------------------

    @classmethod
    def restore(
        cls,
        partition: int,
        partitions: int,
        rows: Mapping[str, bytes],
        recall: Recall | None = None,
    ) -> "ClusterStage":
        """Restore a partition from its rows.

        Raises:
            DamagedTable: the row of the partition is missing, or a row cannot be read.
        """
        stage = cls(partition, partitions, recall)
        clusters = stage._clusters
        by_cluster = group_rows(rows.items())
        partition_row: PartitionRow | None = next(
            read_rows(by_cluster.pop("", {}), PARTITION), None
        )
        if partition_row is not None:
            stage.now_ms, stage.positions = partition_row.now_ms, dict(partition_row.offsets)
        elif by_cluster:
            key = row_key(partition, "", PARTITION)
            raise DamagedTable(key, f"missing, while {len(by_cluster)} clusters have rows")
        for cluster, cluster_rows in sorted(by_cluster.items()):
            for row in read_rows(cluster_rows, failures.KIND):
                clusters.failures.restore_row(row)
            cluster_rows.pop(failures.KIND, None)
            if cluster_rows and clusters.failures.find_apart(cluster) is None:
                clusters.restore_at_start(cluster, cluster_rows, stage.now_ms)
        stage.counts.clusters.update(dict.fromkeys(stage.clusters))
        return stage


# --- counts and figures -------------------------------------------------------------------------


def classify_reason(decision: dict[str, Any]) -> str:
    """Return the label of a decision's reason: a constant from above, or the filter that refused most nodes.

    If several filters refused equally many nodes, returns the first by name.
    """
    if decision["outcome"] == "refused":
        return UNPLACEABLE
    if decision.get("rejected"):
        return REJECTED
    if decision["outcome"] != "waiting":
        return NO_REASON
    refused_by: dict[str, int] = decision["refused_by"]
    if not refused_by:
        return POSTPONED
    return min(refused_by.items(), key=lambda item: (-item[1], item[0]))[0]


def classify_round(fields: dict[str, Any]) -> str:
    """Return the label of a round's result."""
    if fields["gate"]:
        return "stopped"
    if any(pool["leaving"] for pool in fields["pools"]):
        return "moves"
    return "hot" if any(pool["hot"] for pool in fields["pools"]) else "calm"


def count_output(counts: Counts, message: OutputMessage) -> None:
    fields = message.fields
    match message.topic, fields.get("kind"):
        case "placement-decisions", _:
            counts.decided[fields["outcome"], classify_reason(fields)] += 1
            if message.waited_s is not None:
                counts.waits_s[message.waited_s] += 1
        case "eviction-commands", _:
            mode = "observe" if fields["dry_run"] else "enforce"
            counts.commands[fields["cluster"], fields["trigger"], mode] += 1
        case "status", "migration":
            if fields["phase"] not in LIVE:
                reason = fields["reason"] or "Complete"
                counts.migrations[fields["cluster"], fields["phase"], reason] += 1
        case "status", "round":
            counts.rounds[classify_round(fields)] += 1
        case "status", "move":
            for name in MOVE_COUNTS:
                if name == "all" or fields.get(name):
                    counts.moves[fields["cluster"], name] += 1


def describe_policy(state: ClusterState) -> str:
    record = state.policy_record
    paused = ", paused" if record is not None and record.paused else ""
    return f"{state.policy.digest} ({state.policy.mode}{paused})"


def compute_figures(state: ClusterState) -> ClusterFigures:
    now_ms = state.now_ms
    nodes = stale = estimated = 0
    newest_ms: int | None = None
    for node in state.inventory.nodes.values():
        metric = node.usage.metric
        if metric is not None and metric.updated_at_ms is not None:
            newest_ms = max(newest_ms or 0, metric.updated_at_ms)
        if node.state is not None:
            nodes += 1
            expired = node.usage.is_expired(state.inventory.now_ms)
            stale += expired
            # Not `node.missing`: after a start it is empty until nodes are laid out.
            estimated += bool(state.inventory.freshness.find_missing(node, fresh=not expired))
    age_ms = None
    if now_ms is not None and newest_ms is not None:
        # A metric may be newer than log time, within the policy's limit.
        age_ms = max(0, now_ms - newest_ms)
    return ClusterFigures(
        cluster=state.cluster,
        nodes=nodes,
        stale_nodes=stale,
        pods=len(state.inventory.node_of_pod),
        pending_requests=len(state.placement.pending),
        hot_nodes=state.rebalancer.balancer.hot_nodes,
        migrations=sum(map(is_live, state.migrations.lifecycle.registry)),
        nodes_by_estimates=estimated,
        newest_metric_age_ms=age_ms,
        hot_usage=state.rebalancer.balancer.hot_usage,
    )
