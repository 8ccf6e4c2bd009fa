"""Room for replacement pods: finds a node, and reserves room there until the replacement is bound.

A placeholder pod reserves the room. It has a unique uid and no owner, so it does not count as a replica.
Its node is chosen by the filters and scores of placement.
"""

from schemas.messages.migrations import MigrationRow
from schemas.messages.pods import Pod
from streams.inventory.inventory import Inventory
from streams.inventory.node_index import Change
from streams.placement.placer import ExcludedNodes, Exclusions, Placer
from streams.pods.held_pod import HeldPod
from streams.pods.kind import kind_of
from streams.stage.arrays import BoolArray


def build_placeholder(pod: Pod, migration_id: str) -> Pod:
    """Return the pod that reserves room for a pod's replacement."""
    # Kubernetes' uids do not begin with this prefix.
    name = f"reserved-{migration_id}"
    return pod.model_copy(
        update={
            "uid": name,
            "name": name,
            "node": None,
            "required_node": None,
            "owners": (),
            "phase": "Pending",
            "ready": False,
            "scheduled_at_ms": None,
            "initialized_at_ms": None,
            "deleting_at_ms": None,
        }
    )


class ReplacementRooms:
    def __init__(self, inventory: Inventory, placer: Placer, exclusions: Exclusions) -> None:
        self.inventory, self.placer, self.exclusions = inventory, placer, exclusions

    def find_node(self, pod: Pod, source: str, target: str | None = None) -> str | None:
        """Return a node other than the source for the replacement, preferably the target; None without a node."""
        ranking = self.placer.rank(kind_of(build_placeholder(pod, "")))
        excluded = self._find_excluded(pod, source)
        planned = None if target is None else self.inventory.nodes.get(target)
        row = -1 if planned is None else planned.row
        if row >= 0 and row not in excluded.rows and ranking.passes(row):
            return target
        best = ranking.find_best(excluded.rows)
        return None if best is None else self.inventory.index.nodes[best].name

    def find_refusing_nodes(self, pod: Pod) -> BoolArray:
        """Return a mask of the nodes that refuse a replacement of the pod."""
        ranking = self.placer.rank(kind_of(build_placeholder(pod, "")))
        return ranking.get_refused()

    def _find_excluded(self, pod: Pod, source: str) -> ExcludedNodes:
        node = self.inventory.nodes.get(source)
        source_row = frozenset({-1 if node is None else node.row})
        excluded = self.exclusions.find_excluded(pod, self.inventory.now_ms)
        return ExcludedNodes(source_row if excluded is None else source_row | excluded.rows)

    def reserve(self, pod: Pod, row: MigrationRow, node: str, now_ms: int) -> Pod:
        """Reserve room for the replacement of a pod; return the placeholder."""
        placeholder = build_placeholder(pod, row.migration_id)
        held = HeldPod(
            pod=placeholder,
            kind=kind_of(placeholder),
            assigned_at_ms=now_ms,
            expires_at_ms=row.deadline_ms,
            sequence=self.inventory.numbers.records_applied,
        )
        self.inventory.hold(node, held, first_seen=True)
        return placeholder

    def release(self, row: MigrationRow) -> None:
        if row.reserved is not None:
            self.inventory.release(row.reserved.uid)

    def extend(self, row: MigrationRow) -> None:
        """Extend the reservation to the migration's deadline."""
        if row.reserved is not None:
            self.inventory.set_expiry(row.reserved.uid, row.deadline_ms)

    def is_expired(self, row: MigrationRow, now_ms: int) -> bool:
        node_and_held = None if row.reserved is None else self.inventory.find_held(row.reserved.uid)
        ends_ms = None if node_and_held is None else node_and_held[1].expires_at_ms
        return ends_ms is not None and ends_ms <= now_ms

    def is_lost(self, row: MigrationRow) -> bool:
        """Whether the node of the reserved room is gone, or refuses the pod by its state: cordon, taints, labels."""
        if row.reserved is None:
            return False
        self.inventory.update_index()
        node_and_held = self.inventory.find_held(row.reserved.uid)
        if node_and_held is None or node_and_held[0].state is None:
            return True
        refusing = self.placer.find_refusing_filter(node_and_held[1].kind, node_and_held[0].row)
        return refusing is not None and refusing.watches == Change.STATE
