"""Everything that is remembered of moves in one cluster, and its rows.

Whoever holds it hands on what happens and asks before it moves a pod or places one; what has changed is
written by `changed_rows`, and a memory put together by `restore` goes on exactly as the one that the
rows were made from, whatever their order.
"""

from collections.abc import Callable, Iterator, Sized
from typing import Any

from schemas.base import Message
from schemas.decisions import AsOf
from schemas.moves import (
    CoolingNodeRow,
    FollowedEvictionRow,
    MoveOutcome,
    PoolVerdictsRow,
    RecentMovesRow,
    UnmovablePodsRow,
)
from schemas.pods import Pod
from schemas.policy import Policy
from streams.moves.effects import Effects
from streams.moves.history import Moves
from streams.moves.owner import owner_key
from streams.moves.unmovable import Unmovable

#: Tables and the classes of their rows, in the order in which rows are written.
ROWS: dict[str, type[Message]] = {
    "cooling_nodes": CoolingNodeRow,
    "recent_moves": RecentMovesRow,
    "unmovable_pods": UnmovablePodsRow,
    "followed_evictions": FollowedEvictionRow,
    "pool_verdicts": PoolVerdictsRow,
}


class MoveMemory:
    """Recent moves, unmovable pods and followed evictions of one cluster."""

    def __init__(self, cluster: str, policy: Policy) -> None:
        self.moves = Moves(cluster, policy)
        self.unmovable = Unmovable(cluster, policy)
        self.effects = Effects(cluster, policy)

    def set_policy(self, policy: Policy) -> None:
        """Judge by another policy from now on."""
        self.moves.set_policy(policy)
        self.unmovable.set_policy(policy)
        self.effects.set_policy(policy)

    @property
    def empty(self) -> bool:
        """Nothing is remembered."""
        moves, effects = self.moves, self.effects
        kept: tuple[Sized, ...] = (
            moves.owners,
            moves.cooldown.nodes,
            self.unmovable,
            effects.followed,
            effects.pools,
        )
        return not any(map(len, kept))

    def arrived(self, pod: Pod, node: str, now_ms: int) -> None:
        """A pod that was not there before has got a node; costs nothing where nothing is remembered."""
        if not self.moves.owners and not self.effects.followed:
            return
        owner = owner_key(pod)
        self.moves.arrived(owner, node, now_ms)
        self.effects.arrived(owner, pod, node, now_ms)

    def pod_gone(self, uid: str) -> None:
        """A pod has finished or was deleted."""
        self.unmovable.gone(uid)
        self.effects.gone(uid)

    def tick(self, now_ms: int, as_of: AsOf) -> list[MoveOutcome]:
        """Time has passed: what is over is forgotten, and verdicts that are in are told."""
        self.moves.tick(now_ms)
        self.unmovable.tick(now_ms)
        return self.effects.tick(now_ms, as_of)

    def changed_rows(self) -> Iterator[tuple[str, str, Message | None]]:
        """Table, key within the cluster, and row of what has changed since the last call."""
        moves, effects = self.moves, self.effects
        for node in sorted(moves.cooldown.changed):
            yield "cooling_nodes", node, moves.cooldown.nodes.get(node)
        for owner in sorted(moves.changed):
            yield "recent_moves", owner, moves.owners.get(owner)
        for node in sorted(self.unmovable.changed):
            yield "unmovable_pods", node, self.unmovable.row(node)
        for command in sorted(effects.changed_followed):
            yield "followed_evictions", command, effects.followed.get(command)
        for pool in sorted(effects.changed_pools):
            yield "pool_verdicts", pool, effects.pools.get(pool)
        self._unchanged()

    def touch(self) -> None:
        """Count everything as changed."""
        moves, effects = self.moves, self.effects
        moves.cooldown.changed.update(dict.fromkeys(moves.cooldown.nodes))
        moves.changed.update(dict.fromkeys(moves.owners))
        self.unmovable.touch()
        effects.changed_followed.update(dict.fromkeys(effects.followed))
        effects.changed_pools.update(dict.fromkeys(effects.pools))

    def restore(self, read: Callable[[str], Iterator[Any]]) -> None:
        """Take over the rows that `read` gives of each table; of a new memory only."""
        for row in read("cooling_nodes"):
            self.moves.cooldown.nodes[row.node] = row
        for row in read("recent_moves"):
            self.moves.restore(row)
        for row in read("unmovable_pods"):
            self.unmovable.restore(row)
        for row in read("followed_evictions"):
            self.effects.restore_followed(row)
        for row in read("pool_verdicts"):
            self.effects.restore_pool(row)
        self._unchanged()

    def _unchanged(self) -> None:
        self.moves.cooldown.changed.clear()
        self.moves.changed.clear()
        self.unmovable.changed.clear()
        self.effects.changed_followed.clear()
        self.effects.changed_pools.clear()
