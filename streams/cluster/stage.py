"""One partition of the cluster stage: a pure fold over input records.

    records (node-state, pod-lifecycle, scheduling-requests, policies, node-metrics, clock,
             command-outcomes) ──▶ decisions and commands, changed table rows, dead letters

Records are applied one after the other, in the order given; batches only bound how much is made
durable at once and change nothing in what is decided. A record that is read twice is skipped by its
offset. A record that cannot be read or applied becomes a dead letter; nothing in a record stops the
fold.

A defect of loadstream touches one cluster (`streams.cluster.clusters`).
"""

import logging
from collections.abc import Iterable, Iterator, Sequence

from schemas.clock import AHEAD_MAX_MS, ClockTick
from schemas.codec import decode, encode
from schemas.partitions import mislabelled, misplaced
from schemas.policies import PolicyRecord
from schemas.refusals import Refusal, from_the_future
from schemas.rows import FailedClusterRow, PartitionRow
from streams.cluster import failures
from streams.cluster.applied import Applied
from streams.cluster.clusters import Clusters, Recall, no_rows
from streams.cluster.state import ClusterState
from streams.cluster.statistics import count_said, figures_of, policy_words
from streams.cluster.stored import Row, by_cluster, read_row
from streams.cluster.tables import ROWS
from streams.stage.dead_letters import buried, too_long
from streams.stage.records import DamagedTable, InputRecord, OutputRecord, RowChange, StageResult
from streams.stage.statistics import ClusterFigures, Counts, Figures
from streams.stage.version import VERSION

logger = logging.getLogger(__name__)

#: Most clusters in one partition.
CLUSTERS_MAX = 1_000

#: All tables, in the order in which their rows are written: positions come last, so that a crash in
#: between repeats records and never skips them.
TABLES = (failures.TABLE, *ROWS, "partitions")


class ClusterStage:
    """The clusters of one partition."""

    def __init__(
        self,
        partition: int,
        partitions: int,
        recall: Recall = no_rows,
        version: str = VERSION,
        *,
        has_tables: bool = True,
    ) -> None:
        """Start without clusters.

        Args:
            partition: which one.
            partitions: how many the input topics have.
            recall: gives the rows of a cluster that failed; is called only then.
            version: of loadstream.
            has_tables: without them no rows are made; all else is the same.
        """
        self.partition = partition
        self.partitions = partitions
        self.counts = Counts()
        """What was done since `take_counts`: records applied, repeated and refused, decisions."""
        self._has_tables = has_tables
        self._clusters = Clusters(partition, partitions, recall, version, has_tables=has_tables)

    @property
    def clusters(self) -> dict[str, ClusterState]:
        """Those of which anything is known and that are not set apart."""
        return self._clusters.states

    @property
    def positions(self) -> dict[str, int]:
        """Offset applied last of each input topic of which anything was applied."""
        return self._clusters.positions

    @property
    def now_ms(self) -> int | None:
        """The log's time; none: its clock has not ticked."""
        return self._clusters.now_ms

    @now_ms.setter
    def now_ms(self, now_ms: int | None) -> None:
        self._clusters.now_ms = now_ms

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        """Apply records in order."""
        self._clusters.begin()
        for record in records:
            if record.offset <= self.positions.get(record.topic, -1):
                self.counts.results["repeated"] += 1
                continue
            self.positions[record.topic] = record.offset
            each = Applied(record)
            self._clusters.done.append(each)
            self._apply(each)
        rows = tuple(self._rows())
        outputs: list[OutputRecord] = []
        dead: list[OutputRecord] = []
        for each in self._clusters.done:
            self._count(each)
            if each.refusal is not None:
                dead.extend(buried(each.record, each.refusal))
            for spoken in each.spoken():
                unread = too_long(spoken.output)
                if unread is None:
                    outputs.append(spoken.output)
                else:
                    dead.extend(buried(each.record, unread))
        self._clusters.done.clear()  # a large record must not stay until the next batch
        return StageResult(tuple(outputs), rows, tuple(dead))

    # --- records ----------------------------------------------------------------------------------

    def _apply(self, each: Applied) -> None:
        record = each.record
        try:
            message = decode(record.topic, record.value)
        except Exception as error:
            logger.exception("%s offset %d cannot be read", record.topic, record.offset)
            message = Refusal("internal", f"{type(error).__name__}: {error}")
        if isinstance(message, Refusal):
            each.refused[""] = message
            return
        if isinstance(message, ClockTick):
            self._tick(each, message)
            return
        wrong = misplaced(record.key, self.partition, self.partitions) or mislabelled(
            record.topic, record.key, message
        )
        cluster = message.cluster
        if wrong is None and cluster not in self.clusters and len(self.clusters) >= CLUSTERS_MAX:
            wrong = Refusal("limit", f"more than {CLUSTERS_MAX} clusters in one partition")
        if wrong is not None:
            each.refused[""] = wrong
            return
        each.message = message
        known = cluster in self.clusters
        self._to_cluster(cluster, each)
        if not known and cluster in self.clusters:
            self.counts.clusters[cluster] = None

    def _to_cluster(self, cluster: str, each: Applied) -> None:
        record, message = each.record, each.message
        if self._clusters.failures.apart(cluster) is None:
            self._clusters.apply(cluster, each)
        elif isinstance(message, PolicyRecord):
            self._clusters.come_back(cluster, each)
        else:
            each.fail(cluster, self._clusters.failures.miss(cluster, record.topic))

    def _tick(self, each: Applied, tick: ClockTick) -> None:
        """Let every cluster of the partition know what time it is."""
        refusal = self._strays(tick, each.record.refused_at_ms)
        if refusal is not None:
            each.refused[""] = refusal
            return
        if self.now_ms is not None and tick.now_ms < self.now_ms:
            if not tick.reset:
                return
            each.set_back_from_ms = self.now_ms
        each.message = tick
        self._clusters.tick(each, tick.now_ms)

    def _strays(self, tick: ClockTick, refused_at_ms: int | None) -> Refusal | None:
        """Why a tick is not the partition's time.

        The worker's own time is only known where it refused.
        """
        if tick.partition != self.partition:
            return Refusal(
                "misplaced",
                f"partition is {tick.partition}; allowed is {self.partition}, in which the tick was found",
            )
        if refused_at_ms is None:
            return None
        return from_the_future(tick.now_ms, refused_at_ms, AHEAD_MAX_MS, "now_ms") or Refusal(
            "late",
            f"now_ms is {tick.now_ms}, {refused_at_ms - tick.now_ms} ms before {refused_at_ms}, the worker's own "
            f"time; allowed for a reset are at most {AHEAD_MAX_MS} ms: write it again",
        )

    def prepare(self) -> bool:
        """Get clusters ready for their next rounds, a few nodes a call."""
        return any(map(self._prepare, self.clusters.values()))

    def _prepare(self, state: ClusterState) -> bool:
        try:
            return state.rebalancer.prepare()
        except Exception:
            # The round does all of it, and its tick is contained.
            logger.exception("cluster %s cannot be prepared for its next round", state.cluster)
            return False

    # --- what there is to see ---------------------------------------------------------------------

    def take_counts(self) -> Counts:
        """What was done since the last call."""
        counts, self.counts = self.counts, Counts()
        return counts

    def figures(self) -> Figures:
        """The clusters as they are now."""
        clusters = tuple(self._figures())
        nodes = sum(each.nodes for each in clusters)
        return Figures(self.now_ms, nodes, clusters, len(self._clusters.failures.all_apart()))

    def _figures(self) -> Iterator[ClusterFigures]:
        for name in sorted(self.clusters):
            try:
                yield figures_of(self.clusters[name])
            except Exception:
                logger.exception("the figures of cluster %s are left out", name)

    def _count(self, each: Applied) -> None:
        refusal = each.refusal
        if refusal is None:
            self.counts.results["applied"] += 1
        else:
            self.counts.results["refused"] += 1
            self.counts.refused[each.record.topic, refusal.category] += 1
        message = each.message
        if isinstance(message, PolicyRecord) and refusal is None:
            state = self.clusters.get(message.cluster)
            if state is not None:
                self.counts.policies[message.cluster] = policy_words(state)
        for spoken in each.spoken():
            count_said(self.counts, spoken.message)
            if spoken.waited_s is not None:
                self.counts.waits_s[spoken.waited_s] += 1

    # --- rows -----------------------------------------------------------------------------------

    def _rows(self) -> Iterator[RowChange]:
        if not self._has_tables:
            self._clusters.settle()
            return
        yield from self._clusters.changed_rows()
        place = PartitionRow(
            partition=self.partition,
            now_ms=self.now_ms,
            offsets=dict(self.positions),
            clusters=len(self.clusters),
        )
        yield RowChange("partitions", str(self.partition), encode(place))

    @classmethod
    def restored(
        cls,
        partition: int,
        partitions: int,
        rows: Iterable[Row],
        recall: Recall = no_rows,
        version: str = VERSION,
    ) -> "ClusterStage":
        """Put a partition together from table, key and value of its rows; the rest as of a new one.

        Raises:
            DamagedTable: a row cannot be read; it names the row.
        """
        stage = cls(partition, partitions, recall, version)
        place: PartitionRow | None = None
        own: list[Row] = []
        for table, key, value in rows:
            if table == "partitions":
                place = read_row(PartitionRow, table, key, value)
                stage.now_ms = place.now_ms
                stage._clusters.positions = dict(place.offsets)
            elif table == failures.TABLE:
                stage._clusters.failures.take(read_row(FailedClusterRow, table, key, value))
            else:
                own.append((table, key, value))
        of_cluster, found = by_cluster(own), 0
        for cluster in sorted(of_cluster):
            if stage._clusters.failures.apart(cluster) is None:
                found += 1
                stage._clusters.take(cluster, of_cluster[cluster])
        _check_partition(partition, place, found)
        stage.counts.clusters.update(dict.fromkeys(stage.clusters))
        return stage


def _check_partition(partition: int, row: PartitionRow | None, clusters: int) -> None:
    """A partition's own row is there, and as many clusters as it counts.

    More, where some have come back.
    """
    if row is None and clusters:
        raise DamagedTable(
            "partitions", str(partition), f"missing, while {clusters} clusters have rows"
        )
    if row is not None and clusters < (row.clusters or 0):
        raise DamagedTable(
            "clusters",
            str(partition),
            f"{clusters} rows are there; the row in table partitions counts {row.clusters}",
        )
