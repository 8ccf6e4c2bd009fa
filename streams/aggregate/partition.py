"""The state of one partition: nodes, clock, position in the input, and rows.

All of it can be restored from the rows (`streams.aggregate.restore`). `changes` returns the changed rows
of a batch in the order in which they must be written.
"""

from collections.abc import Iterable, Iterator

from schemas.messages.usage import CollectPolicyRecord
from schemas.storage.percentiles import Progress
from streams.aggregate.collect_policies import ClusterPolicies, PoolRules
from streams.aggregate.node import NodeWindows
from streams.aggregate.rows import (
    PodEntry,
    RowLog,
    SampleEntry,
    members_key,
    node_row,
    numbered_key,
    pods_row,
    progress_row,
    samples_row,
)
from streams.stage.records import RowChange

#: How many samples determine the clock.
CLOCK_SAMPLES = 15
#: Epoch of the `progress` row before the first batch of a table.
_OPENING = 0


class PartitionClock:
    """The time of a partition: the median of the times of its newest samples.

    A producer's clock can be wrong by years. The median follows the majority of the samples, so one
    wrong clock can neither make the partition forget its nodes nor prevent that.
    """

    __slots__ = ("newest_ms",)

    def __init__(self, newest_ms: Iterable[int] = ()) -> None:
        self.newest_ms = list(newest_ms)
        """Times of the newest samples, in the order of the log."""

    def add(self, time_ms: int) -> None:
        """Add the time of a sample."""
        self.newest_ms.append(time_ms)
        if len(self.newest_ms) > CLOCK_SAMPLES:
            del self.newest_ms[0]

    @property
    def now_ms(self) -> int | None:
        """The time; None if there were too few samples."""
        if len(self.newest_ms) < CLOCK_SAMPLES:
            return None
        return sorted(self.newest_ms)[CLOCK_SAMPLES // 2]


class PartitionState:
    def __init__(
        self, partition: int, rules: PoolRules, epoch: int = 1, *, first: bool = False
    ) -> None:
        """Start empty.

        Args:
            partition: number of the partition.
            rules: rules of a cluster until its first policy.
            epoch: how often this partition's state has been built, so that earlier owners have
                written no rows with the same keys.
            first: the table has no rows yet.
        """
        self.partition = partition
        self.epoch = epoch
        self.position = -1
        """Offset of the last applied record."""
        self.since_sweep = 0
        """Records applied since the last search for vanished nodes."""
        self.clock = PartitionClock()
        self.policies = ClusterPolicies(rules, epoch << 32)
        self.nodes: dict[str, NodeWindows] = {}
        self.samples_log = RowLog[SampleEntry](epoch << 32)
        self.pods_log = RowLog[PodEntry](epoch << 32)
        self.leftovers: list[str] = []
        """Keys of obsolete rows to remove with the next batch."""
        self._first = first
        self._touched: dict[str, NodeWindows] = {}
        self._forgotten: dict[str, NodeWindows] = {}

    def touch(self, node: NodeWindows) -> None:
        """Prepare a node for its first change in a batch."""
        if node.key not in self._touched:
            self._touched[node.key] = node
            rules = self.policies.of(node.cluster)
            node.drop_expired(rules, self.samples_log, self.pods_log)

    def adopt(self, record: CollectPolicyRecord, offset: int) -> None:
        """Apply a collect policy to the following samples of its cluster."""
        change = self.policies.put(record, offset)
        if change is None:
            return
        for node in self.nodes.values():
            if node.cluster == record.cluster:
                node.cut(
                    change.horizon_ms, change.average_horizon_ms, self.samples_log, self.pods_log
                )

    def create(self, cluster: str, name: str, offset: int) -> NodeWindows:
        """Return a new node; `keep` adds it to the partition."""
        node = NodeWindows(cluster, name, offset)
        before = self._forgotten.get(node.key)
        if before is not None:
            # The node was forgotten in the same batch. If the batch is not completed, the node was not
            # forgotten, and its row must still have the names that its samples need.
            node.created_offset = before.created_offset
            node.pods.load(before.pods.members, before.pods.next_number, [])
            node.pods.renamed = True
        return node

    def keep(self, node: NodeWindows) -> None:
        """Add a node to the partition."""
        self.nodes[node.key] = self._touched[node.key] = node
        self._forgotten.pop(node.key, None)

    def forget(self, node: NodeWindows) -> None:
        """Remove a node and its samples."""
        del self.nodes[node.key]
        self._touched.pop(node.key, None)
        node.clear(self.samples_log, self.pods_log)
        self._forgotten[node.key] = node

    def changes(self) -> tuple[RowChange, ...]:
        """Return the rows changed since the last call, in the order in which they must be written."""
        partition = self.partition
        changes = [*self._opening(), *self._encode_rows()]
        policies, policies_removed = self.policies.changes(partition)
        changes += policies
        pods_removed, samples_removed = (
            self.pods_log.mark_written(),
            self.samples_log.mark_written(),
        )
        changes.append(self._progress())
        removed = [numbered_key(partition, "pod_samples", number) for number in pods_removed]
        removed += [numbered_key(partition, "samples", number) for number in samples_removed]
        removed += [members_key(partition, node) for node in self._forgotten]
        changes += [RowChange(key, None) for key in removed]
        changes += policies_removed
        written = {change.key for change in changes}
        changes += [RowChange(key, None) for key in self.leftovers if key not in written]
        self._touched, self._forgotten = {}, {}
        self.leftovers = [numbered_key(partition, "progress", _OPENING)] if self._first else []
        self._first = False
        return tuple(changes)

    def mark_written(self) -> None:
        """Drop the changes since the last call, for a stage without a table."""
        self.policies.mark_written()
        self.pods_log.mark_written()
        self.samples_log.mark_written()
        self._touched, self._forgotten = {}, {}

    def _encode_rows(self) -> list[RowChange]:
        partition = self.partition
        rows = [
            node_row(partition, node.key, node.created_offset, node.pods)
            for node in self._touched.values()
            if node.pods.renamed
        ]
        rows += [pods_row(partition, *row) for row in self.pods_log.pending()]
        rows += [samples_row(partition, *row) for row in self.samples_log.pending()]
        return rows

    def _opening(self) -> Iterator[RowChange]:
        """Yield the first row of a table: rows without any `progress` mean that it was lost."""
        if self._first:
            progress = Progress(epoch=_OPENING, position=-1, samples_sequence=0, pods_sequence=0)
            yield progress_row(self.partition, progress.model_dump(mode="json", exclude_none=True))

    def _progress(self) -> RowChange:
        return progress_row(
            self.partition,
            {
                "epoch": self.epoch,
                "position": self.position,
                "samples_sequence": self.samples_log.sequence,
                "pods_sequence": self.pods_log.sequence,
                "newest_ms": self.clock.newest_ms,
                "since_sweep": self.since_sweep,
                "forgotten": list(self._forgotten),
                "policies_sequence": self.policies.sequence,
            },
        )
