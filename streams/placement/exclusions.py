"""Nodes that one owner's pods must stay away from, on top of what holds for their kind.

Pods of one kind share a ranking, and their owner is no part of the kind. So the nodes that an
owner's memory forbids are left out after the ranking, which is not computed again for this: the
best node that is not forbidden is taken. An owner without memory costs a look-up, a cluster without
memory nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from schemas.messages.pods import Pod
from streams.inventory.node import Node
from streams.moves.history import Moves
from streams.placement.ranking import Ranking

#: What decisions name as the filter that refuses such nodes; it comes after all others.
NAME = "RecentMoves"
#: Why it does.
REASON = "node(s) left by this owner while hot"


@dataclass(frozen=True, slots=True)
class Excluded:
    """Rows of nodes that a pod must not be placed on."""

    rows: frozenset[int]

    def best(self, ranking: Ranking) -> int | None:
        """Row with the highest total of those that are left; None: there is none."""
        row = ranking.best()
        if row is None or row not in self.rows:
            return row
        others = self.runners_up(ranking, row, 1)
        return others[0] if others else None

    def runners_up(self, ranking: Ranking, winner: int, count: int) -> list[int]:
        """Rows of the next best nodes of those that are left, best first."""
        rows = ranking.runners_up(winner, count + len(self.rows))
        return [row for row in rows if row not in self.rows][:count]

    def refused(self, ranking: Ranking) -> int:
        """How many nodes are refused by nothing else."""
        return sum(ranking.passes(row) for row in self.rows)


class Exclusions:
    """What the memory of moves forbids, in terms of the placer's rows."""

    def __init__(self, moves: Moves, nodes: Mapping[str, Node]) -> None:
        self.moves = moves
        self._nodes = nodes

    def of(self, pod: Pod, now_ms: int) -> Excluded | None:
        """The nodes that a pod must stay away from; None: nothing is remembered.

        Rows are the placer's as it is laid out: ask `Inventory.ready` before.
        """
        names = self.moves.avoided(pod, now_ms)
        if not names:
            return None
        found = (self._nodes.get(name) for name in names)
        rows = frozenset(node.row for node in found if node is not None and node.row >= 0)
        return Excluded(rows) if rows else None
