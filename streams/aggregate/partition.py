"""The state of one partition: its nodes, how far its input was applied, and its rows.

Everything in it comes back from the rows (`streams.aggregate.restore`): what a batch changed is
marked in `changes`, in the order in which it must be written.
"""

from collections.abc import Iterable, Iterator

from schemas.messages.collect import CollectPolicyRecord
from schemas.storage.percentiles import Progress
from streams.aggregate.collect import Collecting
from streams.aggregate.node import NodeWindows
from streams.aggregate.partition_clock import PartitionClock
from streams.aggregate.policies import Policies
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

#: Epoch of the progress that precedes the first batch of a table.
_OPENING = 0


class PartitionState:
    """What is kept of one partition of `node-usage`."""

    def __init__(
        self, partition: int, collecting: Collecting, epoch: int = 1, *, first: bool = False
    ) -> None:
        """Start empty.

        Args:
            partition: its number.
            collecting: what holds for a cluster until its first policy comes.
            epoch: how often this partition's state was built.
            first: the table has no rows yet, and so no progress.
        """
        self.partition = partition
        self.epoch = epoch
        """How often this partition's state was built: rows of an earlier owner never have its keys."""
        self.position = -1
        """Offset of the record applied last."""
        self.since_sweep = 0
        """Records applied since vanished nodes were looked for."""
        self.clock = PartitionClock()
        self.policies = Policies(collecting, epoch << 32)
        self.nodes: dict[str, NodeWindows] = {}
        self.samples_log = RowLog[SampleEntry](epoch << 32)
        self.pods_log = RowLog[PodEntry](epoch << 32)
        self.leftovers: list[str] = []
        """Keys of rows that count for nothing, to be removed."""
        self._first = first
        self._touched: dict[str, NodeWindows] = {}
        self._forgotten: dict[str, NodeWindows] = {}

    def touch(self, node: NodeWindows) -> None:
        """The batch is about to change this node."""
        if node.key not in self._touched:
            self._touched[node.key] = node
            collecting = self.policies.of(node.cluster)
            node.drop_expired(collecting, self.samples_log, self.pods_log)

    def adopt(self, record: CollectPolicyRecord, offset: int) -> None:
        """Samples of a cluster become metrics by another policy from here on."""
        change = self.policies.put(record, offset)
        if change is None:
            return
        for node in self.nodes.values():
            if node.cluster == record.cluster:
                node.cut(
                    change.horizon_ms, change.average_horizon_ms, self.samples_log, self.pods_log
                )

    def create(self, cluster: str, name: str, offset: int) -> NodeWindows:
        """A node of which nothing is known; it counts when it is kept."""
        node = NodeWindows(cluster, name, offset)
        before = self._forgotten.get(node.key)
        if before is not None:
            # Forgotten in this very batch. Should the batch not hold, then the node was never
            # forgotten, and its row must still say what its samples need.
            node.created_offset = before.created_offset
            node.pods.load(before.pods.members, before.pods.next_number, [])
            node.pods.renamed = True
        return node

    def keep(self, node: NodeWindows) -> None:
        """The node is one of the partition's from now on."""
        self.nodes[node.key] = self._touched[node.key] = node
        self._forgotten.pop(node.key, None)

    def forget(self, node: NodeWindows) -> None:
        """The node has vanished; drop all of it."""
        del self.nodes[node.key]
        self._touched.pop(node.key, None)
        node.clear(self.samples_log, self.pods_log)
        self._forgotten[node.key] = node

    def drop_unwritable(self, names: Iterable[str], first_offset: int) -> dict[str, Exception]:
        """Forget the nodes whose rows cannot be encoded; return the exceptions by node.

        For use after `changes` has failed. A row has samples of many nodes, so the rows of each
        node are encoded alone here.

        Args:
            names: nodes that have records in the batch.
            first_offset: where the batch begins; earlier samples stay in the rows.
        """
        failed = {}
        for name in names:
            try:
                self._encode_rows(name)
            except Exception as error:
                failed[name] = error
                if name in self.nodes:
                    self.forget(self.nodes[name])
                self.pods_log.drop(name, first_offset)
                self.samples_log.drop(name, first_offset)
        return failed

    def changes(self) -> tuple[RowChange, ...]:
        """Rows that changed since the last call, in the order in which they must be written.

        If a row cannot be encoded, this raises and changes nothing; see `drop_unwritable`.
        """
        partition = self.partition
        # What may fail comes first, while nothing is noted as written.
        changes = [*self._opening(), *self._encode_rows()]
        policies, policies_removed = self.policies.changes(partition)
        changes += policies
        pods_removed, samples_removed = self.pods_log.settle(), self.samples_log.settle()
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

    def settle(self) -> None:
        """Where there is no table: what has changed is not written, and what no window needs any
        more is forgotten as `changes` does."""
        self.policies.settle()
        self.pods_log.settle()
        self.samples_log.settle()
        self._touched, self._forgotten = {}, {}

    def _encode_rows(self, name: str | None = None) -> list[RowChange]:
        """Encode the changed rows of nodes, pods and samples; only a node's part, if given."""
        partition = self.partition
        rows = [
            node_row(partition, node.key, node.created_offset, node.pods)
            for node in self._touched.values()
            if node.pods.renamed and name in (None, node.key)
        ]
        rows += [pods_row(partition, *row) for row in self.pods_log.pending(name)]
        rows += [samples_row(partition, *row) for row in self.samples_log.pending(name)]
        return rows

    def _opening(self) -> Iterator[RowChange]:
        """The very first row: rows without any progress are those of a table that has lost it."""
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
                "heard_ms": self.clock.heard_ms,
                "since_sweep": self.since_sweep,
                "forgotten": list(self._forgotten),
                "policies_sequence": self.policies.sequence,
            },
        )
