"""One partition of the cluster stage: a pure fold over input records.

    records (node-state, pod-lifecycle, scheduling-requests, policies, node-metrics, clock,
             command-outcomes) ──▶ decisions and commands, changed table rows, dead letters

Records are applied one after the other, in the order given; batches only bound how much is made durable
at once and change nothing in what is decided. A record that is read twice is skipped by its offset. A
record that cannot be read or applied becomes a dead letter; nothing in a record stops the fold.
"""

import logging
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any

from schemas.clock import ClockTick
from schemas.codec import decode, encode
from schemas.decisions import PlacementDecision
from schemas.partitions import mislabelled, misplaced
from schemas.policies import PolicyRecord
from schemas.refusals import Refusal
from schemas.rows import PartitionRow
from schemas.topics import TOPIC_OF
from streams.cluster.figures import count_said, figures_of, policy_words
from streams.cluster.state import Answer, ClusterState, Output, Position
from streams.cluster.tables import ROWS, changed_rows, last_rows, restore
from streams.deadletters import buried
from streams.observation import Counts, Figures
from streams.records import DamagedTable, InputRecord, OutputRecord, RowChange, StageResult

logger = logging.getLogger(__name__)

#: Most clusters in one partition.
CLUSTERS_MAX = 1_000

#: All tables, in the order in which their rows are written: positions come last, so that a crash in
#: between repeats records and never skips them.
TABLES = (*ROWS, "partitions")


class ClusterStage:
    """The clusters of one partition."""

    def __init__(self, partition: int, partitions: int) -> None:
        self.partition = partition
        self.partitions = partitions
        self.clusters: dict[str, ClusterState] = {}
        self.positions: dict[str, int] = {}
        """Offset applied last of each input topic of which anything was applied."""
        self.now_ms: int | None = None
        self.counts = Counts()
        """What was done since `take_counts`: records applied, repeated and refused, decisions."""
        self._changed: dict[str, None] = {}
        self._forgotten: dict[tuple[str, str], RowChange] = {}
        """Rows of clusters that this batch has forgotten."""

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        """Apply records in order."""
        outputs: list[OutputRecord] = []
        dead: list[OutputRecord] = []
        for record in records:
            if record.offset <= self.positions.get(record.topic, -1):
                self.counts.results["repeated"] += 1
                continue
            self.positions[record.topic] = record.offset
            answered, refusal = self._apply(record)
            if refusal is None:
                self.counts.results["applied"] += 1
            else:
                self.counts.results["refused"] += 1
                self.counts.refused[record.topic, refusal.category] += 1
                dead.extend(buried(record, refusal))
            for message in answered:
                count_said(self.counts, message)
                if isinstance(message, PlacementDecision) and message.outcome == "placed":
                    self._count_wait(message)
                outputs.append(self._output(message))
        return StageResult(tuple(outputs), tuple(self._rows()), tuple(dead))

    def _apply(self, record: InputRecord) -> tuple[Sequence[Output], Refusal | None]:
        """Messages that the record causes, and why it was refused if it was."""
        message = decode(record.topic, record.value)
        if isinstance(message, Refusal):
            return [], message
        position = Position(record.topic, self.partition, record.offset, self.positions)
        if isinstance(message, ClockTick):
            return self._tick(message, position)
        wrong = misplaced(record.key, self.partition, self.partitions) or mislabelled(
            record.topic, record.key, message
        )
        if wrong is not None:
            return [], wrong
        state = self.clusters.get(message.cluster)
        if state is None:
            if len(self.clusters) >= CLUSTERS_MAX:
                return [], Refusal("limit", f"more than {CLUSTERS_MAX} clusters in one partition")
            state = ClusterState(message.cluster)
            if self.now_ms is not None:
                state.advance(self.now_ms)
            answer = self._of_cluster(state, message, position)
            if not state.empty:
                self.clusters[message.cluster] = state
                self.counts.clusters[message.cluster] = None
        else:
            answer = self._of_cluster(state, message, position)
        if isinstance(message, PolicyRecord) and not isinstance(answer, Refusal):
            self.counts.policies[state.cluster] = policy_words(state)
        return ([], answer) if isinstance(answer, Refusal) else (answer, None)

    def _of_cluster(self, state: ClusterState, message: Any, position: Position) -> Answer:
        """Let one cluster apply a message; a defect of ours must not stop the others."""
        self._changed[state.cluster] = None
        try:
            return state.apply(message, position)
        except Exception as error:
            logger.exception(
                "cluster %s, %s offset %d", state.cluster, position.topic, position.offset
            )
            return Refusal("internal", f"{type(error).__name__}: {error}")

    def _tick(self, tick: ClockTick, position: Position) -> tuple[Sequence[Output], Refusal | None]:
        """Let every cluster of the partition know what time it is."""
        if tick.partition != self.partition:
            return [], Refusal(
                "misplaced",
                f"partition is {tick.partition}; allowed is {self.partition}, in which the tick was found",
            )
        if self.now_ms is not None and tick.now_ms < self.now_ms:
            return [], None
        self.now_ms = tick.now_ms
        outputs: list[Output] = []
        failure: Refusal | None = None
        for cluster in sorted(self.clusters):
            state = self.clusters[cluster]
            answer = self._of_cluster(state, tick, position)
            if isinstance(answer, Refusal):
                failure = failure or answer
            else:
                outputs += answer
            if state.empty:
                self._forget(state)
        return outputs, failure

    def _forget(self, state: ClusterState) -> None:
        """Nothing is known of a cluster any more, so it takes no place and no time."""
        del self.clusters[state.cluster]
        for row in last_rows(state, f"{self.partition}/{state.cluster}"):
            self._forgotten[row.table, row.key] = row

    def _output(self, message: Output) -> OutputRecord:
        return OutputRecord(
            topic=TOPIC_OF[type(message)],
            key=message.cluster,
            value=encode(message),
            timestamp_ms=self.now_ms or 0,
        )

    def prepare(self) -> bool:
        """Get clusters ready for their next rounds, a few nodes a call."""
        return any(state.rebalancer.prepare() for state in self.clusters.values())

    # --- what there is to see ---------------------------------------------------------------------

    def take_counts(self) -> Counts:
        """What was done since the last call."""
        counts, self.counts = self.counts, Counts()
        return counts

    def figures(self) -> Figures:
        """The clusters as they are now."""
        clusters = tuple(figures_of(self.clusters[name]) for name in sorted(self.clusters))
        return Figures(self.now_ms, sum(each.nodes for each in clusters), clusters)

    def _count_wait(self, decision: PlacementDecision) -> None:
        held = self.clusters[decision.cluster].inventory.held(decision.pod.uid)
        if held is not None and held[1].requested_at_ms is not None:
            wait_ms = decision.decided_at_ms - held[1].requested_at_ms
            # Producers' clocks may be ahead of the log's.
            self.counts.waits_s[max(0, wait_ms) // 1000] += 1

    # --- rows -----------------------------------------------------------------------------------

    def _rows(self) -> Iterable[RowChange]:
        rows, self._forgotten = self._forgotten, {}
        for cluster in self._changed:
            if cluster in self.clusters:
                for row in changed_rows(self.clusters[cluster], f"{self.partition}/{cluster}"):
                    rows[row.table, row.key] = row
        self._changed.clear()
        yield from rows.values()
        place = PartitionRow(
            partition=self.partition, now_ms=self.now_ms, offsets=dict(self.positions)
        )
        yield RowChange("partitions", str(self.partition), encode(place))

    @classmethod
    def restored(
        cls, partition: int, partitions: int, rows: Iterable[tuple[str, str, bytes]]
    ) -> "ClusterStage":
        """Put a partition together from table, key and value of its rows.

        Raises:
            DamagedTable: a row cannot be read; it names the row.
        """
        stage = cls(partition, partitions)
        of_cluster: dict[str, _Unread] = defaultdict(lambda: defaultdict(list))
        for table, key, value in rows:
            if table == "partitions":
                whole = _read(PartitionRow, table, key, value)
                stage.now_ms, stage.positions = whole.now_ms, dict(whole.offsets)
            else:
                of_cluster[_cluster_of(table, key)][table].append((key, value))
        for cluster in sorted(of_cluster):
            parts = of_cluster[cluster]
            if not parts["clusters"]:
                named = ", ".join(sorted(table for table, found in parts.items() if found))
                raise DamagedTable("clusters", cluster, f"missing, while {named} have rows of it")
            stage.counts.clusters[cluster] = None
            stage.clusters[cluster] = restore(
                cluster,
                stage.now_ms,
                partial(_rows_of, cluster, parts),
            )
        return stage


#: Keys and values of one cluster's rows, by table.
_Unread = dict[str, list[tuple[str, bytes]]]


def _rows_of(cluster: str, parts: _Unread, table: str) -> Iterator[Any]:
    """The rows, each read when it is its turn: all of them at once would take twice the memory."""
    for key, value in parts[table]:
        row = _read(ROWS[table], table, key, value)
        if row.cluster != cluster:
            raise DamagedTable(
                table, key, f"is of cluster {row.cluster}, which its key does not say"
            )
        yield row


def _cluster_of(table: str, key: str) -> str:
    """The cluster that a row belongs to; keys are partition/cluster and partition/cluster/name."""
    parts = key.split("/", 2)
    if len(parts) < 2:
        raise DamagedTable(table, key, "the key names no cluster; expected partition/cluster/name")
    return parts[1]


def _read(row: Any, table: str, key: str, value: bytes) -> Any:
    try:
        return row.model_validate_json(value)
    except ValueError as error:
        raise DamagedTable(table, key, f"cannot be read: {error}") from error
