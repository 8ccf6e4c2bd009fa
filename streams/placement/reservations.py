"""When reservations end: room that a decision took, unless the pod's lifecycle confirms it before.

Only the times to look are remembered here. The node says whether a pod is still held by the
decision that reserved its room.
"""

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.placement.ranking import Ranking
from streams.pods.held import Held


def preferred(ranking: Ranking, node: Node | None) -> int | None:
    """Row of a node if it takes the kind, else of the best node; None: no node takes it."""
    if node is not None and node.row >= 0 and ranking.passes(node.row):
        return node.row
    return ranking.best()


class _End(NamedTuple):
    """A reservation's end; it holds only if the pod is still held by the same decision."""

    at_ms: int
    uid: str
    decision_id: str


class Reservations:
    """The ends of a cluster's reservations."""

    def __init__(self, inventory: Inventory) -> None:
        self._inventory = inventory
        self._ends: list[_End] = []

    def expect_end(self, held: Held) -> None:
        """Remember when a pod's reservation ends; one that is confirmed does not."""
        if held.expires_at_ms is not None and held.decision_id is not None:
            heapq.heappush(self._ends, _End(held.expires_at_ms, held.pod.uid, held.decision_id))

    def over(self, now_ms: int) -> Iterator[tuple[Node, Held]]:
        """Reservations whose time is over, the earliest first; each is given once."""
        while self._ends and self._ends[0].at_ms <= now_ms:
            end = heapq.heappop(self._ends)
            found = self._inventory.held(end.uid)
            if found is None or found[1].decision_id != end.decision_id:
                continue
            if found[1].expires_at_ms is not None:
                yield found
