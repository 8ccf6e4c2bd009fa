"""Room for a replacement: where it would go, and holding it there until the replacement comes.

The room is held as a pod of its own, with an id that no pod has and without an owner, so that
nothing takes it for a replica. The room is taken through the same filters and scores as every
placement.
"""

from schemas.messages.migrations import MigrationRow
from schemas.messages.pods import Pod
from streams.inventory.inventory import Inventory
from streams.placement.exclusions import Excluded, Exclusions
from streams.placement.placer import Placer
from streams.pods.held import Held
from streams.pods.kind import kind_of
from streams.stage.arrays import BoolArray


def stand_in(pod: Pod, migration_id: str) -> Pod:
    """The pod by which room for a pod's replacement is held."""
    # No uid of Kubernetes begins like this.
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


class HeldRoom:
    """Room for replacements in one cluster."""

    def __init__(self, inventory: Inventory, placer: Placer, exclusions: Exclusions) -> None:
        self.inventory, self.placer, self.exclusions = inventory, placer, exclusions

    def find(self, pod: Pod, source: str, target: str | None = None) -> str | None:
        """The node to which a pod like this would go: the target if it can, never the source.

        None: no other node takes it.
        """
        template = stand_in(pod, "")
        ranking = self.placer.rank(kind_of(template))
        excluded = self._excluded(pod, source)
        planned = None if target is None else self.inventory.nodes.get(target)
        row = -1 if planned is None else planned.row
        if row >= 0 and row not in excluded.rows and ranking.passes(row):
            return target
        best = excluded.best(ranking)
        return None if best is None else self.inventory.index.nodes[best].name

    def refused(self, pod: Pod) -> BoolArray:
        """Which nodes refuse a pod like this, by their rows."""
        ranking = self.placer.rank(kind_of(stand_in(pod, "")))
        return ranking.refused()

    def _excluded(self, pod: Pod, source: str) -> Excluded:
        node = self.inventory.nodes.get(source)
        own = frozenset({-1 if node is None else node.row})
        found = self.exclusions.of(pod, self.inventory.now_ms)
        return Excluded(own if found is None else own | found.rows)

    def hold(self, pod: Pod, row: MigrationRow, node: str, now_ms: int) -> Pod:
        """Hold room for the replacement of a pod; answers with what stands in for it."""
        template = stand_in(pod, row.migration_id)
        held = Held(
            pod=template,
            demand=kind_of(template).demand,
            assigned_at_ms=now_ms,
            expires_at_ms=row.deadline_ms,
            sequence=self.inventory.numbers.sequence,
        )
        self.inventory.hold(node, held, first_seen=True)
        return template

    def give_back(self, row: MigrationRow) -> None:
        """Release the room."""
        if row.reserved is not None:
            self.inventory.release(row.reserved.uid)

    def prolong(self, row: MigrationRow) -> None:
        """Hold the room until the deadline as it is now."""
        if row.reserved is not None:
            self.inventory.keep(row.reserved.uid, row.deadline_ms)

    def over(self, row: MigrationRow, now_ms: int) -> bool:
        """The time for which room was held has passed."""
        found = None if row.reserved is None else self.inventory.held(row.reserved.uid)
        ends_ms = None if found is None else found[1].expires_at_ms
        return ends_ms is not None and ends_ms <= now_ms

    def lost(self, row: MigrationRow) -> bool:
        """Room that was held is lost: its node is gone or takes no pods."""
        if row.reserved is None:
            return False
        found = self.inventory.held(row.reserved.uid)
        return found is None or found[0].state is None or found[0].cordoned
