"""The state of one partition: nodes, clock, position in the input, and rows.

The state can be restored from the rows (`streams.aggregate.restore`). `take_changes` returns the changed rows
of a batch, in the order in which they must be written.
"""

from collections.abc import Iterable

from schemas.messages.usage import CollectPolicyRecord
from schemas.storage.percentiles import Progress
from schemas.topics.codec import encode
from streams.aggregate.collect_policies import ClusterPolicies, PoolRules
from streams.aggregate.node import NodeWindows
from streams.aggregate.rows import (
    PodEntry,
    RowLog,
    SampleEntry,
    encode_node_row,
    encode_pods_row,
    encode_progress_row,
    encode_samples_row,
    members_key,
    numbered_key,
)
from streams.stage.records import RowChange

#: Number of samples that determine the clock.
CLOCK_SAMPLES = 15


class PartitionClock:
    """The time of a partition: the median of the times of its newest samples.

    A producer's clock can be wrong by years. The median follows the majority of the samples, so one
    wrong clock can neither make the partition forget its nodes nor prevent it from doing so.
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
            epoch: number of times that the state was built; numbers of rows begin with it, so that
                their keys differ from those of earlier owners.
            first: whether the table has no rows yet.
        """
        self.partition = partition
        self.epoch = epoch
        self.position = -1
        """Offset of the last applied record."""
        self.since_sweep = 0
        """Records applied since the last search for nodes to forget."""
        self.clock = PartitionClock()
        self.policies = ClusterPolicies(rules, epoch << 32)
        self.nodes: dict[str, NodeWindows] = {}
        self.samples_log = RowLog[SampleEntry](epoch << 32)
        self.pods_log = RowLog[PodEntry](epoch << 32)
        self.obsolete_keys: list[str] = []
        """Keys of obsolete rows to remove with the next batch."""
        self._first = first
        self._touched: dict[str, NodeWindows] = {}
        self._forgotten: dict[str, NodeWindows] = {}

    def touch(self, node: NodeWindows) -> None:
        """Prepare a node for its first change in a batch."""
        if node.key not in self._touched:
            self._touched[node.key] = node
            rules = self.policies.get_pool_rules(node.cluster)
            node.drop_expired(rules)

    def apply_policy(self, record: CollectPolicyRecord, offset: int) -> None:
        """Apply a collect policy to the following samples of its cluster."""
        change = self.policies.set_policy(record, offset)
        if change is None:
            return
        for node in self.nodes.values():
            if node.cluster == record.cluster:
                node.drop_older(change.horizon_ms, change.average_horizon_ms)

    def create(self, cluster: str, name: str, offset: int) -> NodeWindows:
        """Return a new node; `add` adds it to the partition."""
        node = NodeWindows(cluster, name, offset, self.samples_log, self.pods_log)
        before = self._forgotten.get(node.key)
        if before is not None:
            # The node was forgotten in the same batch. If the batch is not completed, the former samples
            # count again, and the node's row must have the names that they need.
            node.created_offset = before.created_offset
            node.pods.load(before.pods.members, before.pods.next_number, [])
            node.pods.names_changed = True
        return node

    def add(self, node: NodeWindows) -> None:
        """Add a node to the partition."""
        self.nodes[node.key] = self._touched[node.key] = node
        self._forgotten.pop(node.key, None)

    def forget(self, node: NodeWindows) -> None:
        """Remove a node and its samples."""
        del self.nodes[node.key]
        self._touched.pop(node.key, None)
        node.clear()
        self._forgotten[node.key] = node

    def take_changes(self) -> tuple[RowChange, ...]:
        """Return the rows changed since the last call, in the order in which they must be written."""
        partition = self.partition
        changes = self._encode_rows()
        if self._first:
            # Rows without `progress` mean that it was lost.
            initial = Progress(epoch=0, position=-1, samples_sequence=0, pods_sequence=0)
            key = numbered_key(partition, "progress", initial.epoch)
            changes.insert(0, RowChange(key, encode(initial)))
        policies, policies_removed = self.policies.take_changes(partition)
        changes += policies
        pods_removed = self.pods_log.mark_written()
        samples_removed = self.samples_log.mark_written()
        changes.append(self._encode_progress())
        removed = [numbered_key(partition, "pod_samples", number) for number in pods_removed]
        removed += [numbered_key(partition, "samples", number) for number in samples_removed]
        removed += [members_key(partition, node) for node in self._forgotten]
        changes += [RowChange(key, None) for key in removed]
        changes += policies_removed
        written = {change.key for change in changes}
        changes += [RowChange(key, None) for key in self.obsolete_keys if key not in written]
        self._touched, self._forgotten = {}, {}
        self.obsolete_keys = [numbered_key(partition, "progress", 0)] if self._first else []
        self._first = False
        return tuple(changes)

    def mark_written(self) -> None:
        """Drop the changes, for a stage without a table."""
        self.policies.mark_written()
        self.pods_log.mark_written()
        self.samples_log.mark_written()
        self._touched, self._forgotten = {}, {}

    def _encode_rows(self) -> list[RowChange]:
        partition = self.partition
        rows = [
            encode_node_row(partition, node.key, node.created_offset, node.pods)
            for node in self._touched.values()
            if node.pods.names_changed
        ]
        rows += [encode_pods_row(partition, *row) for row in self.pods_log.list_pending()]
        rows += [encode_samples_row(partition, *row) for row in self.samples_log.list_pending()]
        return rows

    def _encode_progress(self) -> RowChange:
        return encode_progress_row(
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
