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
from streams.cluster.tables import read_rows, rows_by_cluster
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
from streams.stage.version import VERSION

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

    def __init__(
        self,
        partition: int,
        partitions: int,
        recall: Recall | None = None,
        version: str = VERSION,
        *,
        has_tables: bool = True,
    ) -> None:
        """Start without clusters.

        Args:
            partition: number of the partition.
            partitions: number of partitions of the input topics.
            recall: returns the rows of a cluster that has failed; None: no rows are kept.
            version: version of loadstream.
            has_tables: whether results have rows.
        """
        self.partition = partition
        self.partitions = partitions
        self.counts = Counts()
        """Counts of records and decisions since the last `take_counts`."""
        self._has_tables = has_tables
        self._clusters = Clusters(partition, partitions, recall, version, has_tables=has_tables)
        self.positions: dict[str, int] = {}
        """Offset of the newest applied record of each input topic."""
        self.now_ms: int | None = None
        """Log time; None before the first clock tick."""

    @property
    def clusters(self) -> dict[str, ClusterState]:
        return self._clusters.states

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        start_ms, before = self.now_ms, set(self.clusters)
        names = {*before, *self._clusters.failures.list_apart()}
        batch: list[BatchRecord] = []
        for record in records:
            self.positions[record.topic] = record.offset
            batch.append(self._read(record, names))
        rows = self._clusters.apply(batch, start_ms)
        self.counts.clusters.update(dict.fromkeys(sorted(set(self.clusters) - before)))
        outputs: list[OutputRecord] = []
        dead: list[OutputRecord] = []
        for entry in batch:
            self._count(entry)
            if entry.refusal is not None:
                dead.extend(build_dead_letters(entry.record, entry.refusal))
            for output in (*entry.outputs, *entry.notices):
                if len(output.record.value) <= VALUE_BYTES_MAX:
                    outputs.append(output.record)
                else:
                    dead.extend(build_dead_letters(entry.record, refuse_output(output.record)))
        return StageResult(tuple(outputs), self._with_own_row(rows), tuple(dead))

    # --- records ----------------------------------------------------------------------------------

    def _read(self, record: InputRecord, names: set[str]) -> BatchRecord:
        """Decode a record and advance log time; `names` are the known clusters."""
        entry = BatchRecord(record, dict(self.positions))
        try:
            message = decode(record.topic, record.value)
        except Exception as error:
            logger.exception("%s offset %d cannot be read", record.topic, record.offset)
            message = Refusal("internal", f"{type(error).__name__}: {error}")
        if isinstance(message, Refusal):
            entry.refusal = message
        elif isinstance(message, ClockTick):
            entry.refusal = self._check_tick(message, record.refused_at_ms)
            is_older = self.now_ms is not None and message.now_ms < self.now_ms
            if entry.refusal is None and not is_older:
                entry.message, self.now_ms = message, message.now_ms
        else:
            entry.refusal = self._check_message(message, record, names)
            if entry.refusal is None:
                entry.message = message
        entry.now_ms = self.now_ms
        return entry

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
        """Prepare the next rounds, a few nodes per call; return False if there is nothing to do."""
        return any(state.rebalancer.prepare() for state in self.clusters.values())

    # --- metrics ----------------------------------------------------------------------------------

    def take_counts(self) -> Counts:
        counts, self.counts = self.counts, Counts()
        return counts

    def figures(self) -> Figures:
        clusters = tuple(self._figures())
        nodes = sum(cluster.nodes for cluster in clusters)
        return Figures(self.now_ms, nodes, clusters, len(self._clusters.failures.list_apart()))

    def _figures(self) -> Iterator[ClusterFigures]:
        for name in sorted(self.clusters):
            try:
                yield compute_figures(self.clusters[name])
            except Exception:
                logger.exception("cluster %s: cannot compute figures", name)

    def _count(self, entry: BatchRecord) -> None:
        refusal = entry.refusal
        if refusal is None:
            self.counts.results["applied"] += 1
        else:
            self.counts.results["refused"] += 1
            self.counts.refused[entry.record.topic, refusal.category] += 1
        message = entry.message
        if isinstance(message, PolicyRecord) and refusal is None:
            state = self.clusters.get(message.cluster)
            if state is not None:
                self.counts.policies[message.cluster] = describe_policy(state)
        for output in (*entry.outputs, *entry.notices):
            count_output(self.counts, output.message)

    # --- rows -----------------------------------------------------------------------------------

    def _with_own_row(self, rows: list[RowChange]) -> tuple[RowChange, ...]:
        if not self._has_tables:
            return ()
        row = PartitionRow(
            partition=self.partition,
            now_ms=self.now_ms,
            offsets=dict(self.positions),
        )
        return (*rows, RowChange(row_key(self.partition, "", PARTITION), encode(row)))

    @classmethod
    def restore(
        cls,
        partition: int,
        partitions: int,
        rows: Mapping[str, bytes],
        recall: Recall | None = None,
        version: str = VERSION,
    ) -> "ClusterStage":
        """Restore a partition from its rows.

        Raises:
            DamagedTable: the partition's own row is missing, or a row cannot be read.
        """
        stage = cls(partition, partitions, recall, version)
        clusters = stage._clusters
        by_cluster = rows_by_cluster(rows.items())
        own_row: PartitionRow | None = next(read_rows(by_cluster.pop("", {}), PARTITION), None)
        if own_row is not None:
            stage.now_ms, stage.positions = own_row.now_ms, dict(own_row.offsets)
        elif by_cluster:
            key = row_key(partition, "", PARTITION)
            raise DamagedTable(key, f"missing, while {len(by_cluster)} clusters have rows")
        for cluster, of_cluster in sorted(by_cluster.items()):
            for row in read_rows(of_cluster, failures.KIND):
                clusters.failures.restore_row(row)
            of_cluster.pop(failures.KIND, None)
            if of_cluster and clusters.failures.find_apart(cluster) is None:
                clusters.restore_at_start(cluster, of_cluster, stage.now_ms)
        stage.counts.clusters.update(dict.fromkeys(stage.clusters))
        return stage


# --- counts and figures -------------------------------------------------------------------------


def classify_reason(decision: dict[str, Any]) -> str:
    """Return a label for the reason of a decision: the filter that refused most nodes, or one of above.

    Among filters that refused equally many nodes, the first by name is returned.
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
    """Return a label for the result of a round."""
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
            # Not `node.missing`: after a start nodes have no rows until something is decided.
            estimated += bool(state.inventory.freshness.find_missing(node, fresh=not expired))
    age_ms = None
    if now_ms is not None and newest_ms is not None:
        # A metric may be ahead of log time by as much as the policy allows.
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
