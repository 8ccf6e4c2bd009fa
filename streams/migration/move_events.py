"""Hands what migrations report to the memory of moves: a pod must leave, has left, or stays."""

from schemas.messages.migrations import MigrationRow
from schemas.messages.moves import FollowedEvictionRow
from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.moves.memory import MoveMemory
from streams.pods.held import Held


class MoveEvents:
    """The moves among the migrations of one cluster; those of users and drains are none."""

    def __init__(self, inventory: Inventory, memory: MoveMemory) -> None:
        self._inventory, self._memory = inventory, memory

    def commanded(self, row: MigrationRow, replicas: int) -> None:
        """The first command of a migration is the move; further ones repeat it."""
        if row.trigger == "rebalance" and row.attempts == 1:
            self._left(row, replicas, dry_run=row.dry_run)

    def turned_dry(self, row: MigrationRow, replicas: int) -> None:
        """The pod is only said to leave, from the first command on."""
        if row.trigger == "rebalance":
            moves, now_ms = self._memory.moves, self._inventory.now_ms
            moves.stayed(row.owner, row.source_node, now_ms, dry_run=False)
            self._left(row, replicas, dry_run=True)

    def _left(self, row: MigrationRow, replicas: int, *, dry_run: bool) -> None:
        self._memory.moves.left(
            row.owner,
            row.source_node,
            self._inventory.now_ms,
            row.cause,
            dry_run=dry_run,
            replicas=replicas,
        )

    def evicted(self, row: MigrationRow, commanded_at_ms: int) -> None:
        """Follow the eviction of a pod that has left; a dry eviction is not followed."""
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
        # An owner replaces a pod while that one still terminates: the replacement may be there.
        found = None if row.replacement is None else self._inventory.held(row.replacement.uid)
        if row.mode == "EvictDirectly":
            found = self._replacement(row, commanded_at_ms)
        if found is not None and found[1].expires_at_ms is None:
            followed.note_arrival(row.owner, found[1].pod, found[0].name)

    def _replacement(self, row: MigrationRow, since_ms: int) -> tuple[Node, Held] | None:
        """The first pod of the owner since a time that has a node and replaces no other pod."""
        replacements, first = self._memory.followed.replacements_of(row.owner), None
        for uid in self._inventory.owners.pods(row.owner):
            found = self._inventory.held(uid)
            if found is None or uid == row.pod.uid or uid in replacements:
                continue
            held = found[1]
            here = held.expires_at_ms is None and held.pod.deleting_at_ms is None
            order = held.assigned_at_ms, uid
            if here and order[0] >= since_ms and (first is None or order < first[0]):
                first = order, found
        return None if first is None else first[1]

    def abandoned(self, row: MigrationRow) -> None:
        """The pod stays after all."""
        if row.trigger == "rebalance":
            moves, now_ms = self._memory.moves, self._inventory.now_ms
            moves.stayed(row.owner, row.source_node, now_ms, dry_run=row.dry_run)
