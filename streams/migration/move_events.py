"""Records migrations in the history of moves: a command was sent, the pod was evicted, or the pod stays.

Only migrations of rounds are moves, not those of users and drains.
"""

from schemas.messages.migrations import MigrationRow
from schemas.messages.moves import FollowedEvictionRow
from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.moves.memory import MoveMemory
from streams.pods.held_pod import HeldPod


class MoveEvents:
    def __init__(self, inventory: Inventory, memory: MoveMemory) -> None:
        self._inventory, self._memory = inventory, memory

    def record_command(self, row: MigrationRow, replicas: int) -> None:
        """Record a move at the first command. Further commands repeat the move."""
        if row.trigger == "rebalance" and row.attempts == 1:
            self._record_departure(row, replicas, dry_run=row.dry_run)

    def record_became_dry(self, row: MigrationRow, replicas: int) -> None:
        """Replace the recorded move by a dry one."""
        if row.trigger == "rebalance":
            moves, now_ms = self._memory.moves, self._inventory.now_ms
            moves.cancel_departure(row.owner, row.source_node, now_ms, dry_run=False)
            self._record_departure(row, replicas, dry_run=True)

    def _record_departure(self, row: MigrationRow, replicas: int, *, dry_run: bool) -> None:
        self._memory.moves.record_departure(
            row.owner,
            row.source_node,
            self._inventory.now_ms,
            row.cause,
            dry_run=dry_run,
            replicas=replicas,
        )

    def record_eviction(self, row: MigrationRow, commanded_at_ms: int) -> None:
        """Begin to follow the effect of an eviction, unless the eviction is dry."""
        if row.trigger != "rebalance" or row.command_id is None or row.dry_run:
            return
        followed = self._memory.followed
        followed.follow(
            FollowedEvictionRow(
                cluster=row.cluster,
                command_id=row.command_id,
                migration_id=row.migration_id,
                pool=row.pool,
                phase=row.watched,
                pod=row.pod,
                owner=row.owner,
                source_node=row.source_node,
                evicted_at_ms=self._inventory.now_ms,
                source_hot_before=row.source_hot_before,
            )
        )
        # The replacement may already be there: controllers replace pods that are still terminating.
        replacement = None
        if row.mode == "EvictDirectly":
            replacement = self._find_replacement(row, commanded_at_ms)
        elif row.replacement is not None:
            replacement = self._inventory.find_held(row.replacement.uid)
        if replacement is not None and replacement[1].expires_at_ms is None:
            node, held = replacement
            followed.note_arrival(row.owner, held.pod, node.name)

    def _find_replacement(self, row: MigrationRow, since_ms: int) -> tuple[Node, HeldPod] | None:
        """Return the first pod of the owner that was bound since a time and replaces no other pod."""
        replacements = self._memory.followed.list_replacements(row.owner)
        uids = self._inventory.owners.list_pods(row.owner).keys() - {row.pod.uid, *replacements}
        bound = [
            node_and_held
            for node_and_held in map(self._inventory.find_held, uids)
            if node_and_held is not None
            and node_and_held[1].expires_at_ms is None
            and node_and_held[1].pod.deleting_at_ms is None
            and node_and_held[1].assigned_at_ms >= since_ms
        ]
        return min(bound, key=lambda item: (item[1].assigned_at_ms, item[1].pod.uid), default=None)

    def record_stay(self, row: MigrationRow) -> None:
        """Remove the recorded move of a pod that was not evicted."""
        if row.trigger == "rebalance":
            moves, now_ms = self._memory.moves, self._inventory.now_ms
            moves.cancel_departure(row.owner, row.source_node, now_ms, dry_run=row.dry_run)
