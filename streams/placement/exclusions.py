"""Nodes that one pod must stay away from, on top of what holds for its kind.

Pods of one kind share a ranking, and their owner, namespace and most labels are no part of the kind.
So the nodes that are forbidden for a pod are left out after the ranking, which is not computed again
for this: the best node that is not forbidden is taken. They are those that its owner's pods left
while they were hot, and those of pods whose required anti-affinity selects it. A cluster without
either costs nothing.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field

from schemas.messages.pods import Pod
from streams.inventory.inventory import Inventory
from streams.moves.history import Moves
from streams.placement.ranking import Ranking
from streams.pods.anti_affinity import HeldTerm

#: What decisions name as the filter that refuses such nodes, after all others, and why it does.
MOVES = "RecentMoves", "node(s) left by this owner while hot"
ANTI_AFFINITY = "InterPodAffinity", "node(s) didn't satisfy existing pods anti-affinity rules"
#: Label of nodes that tells each node from all others.
_HOSTNAME = "kubernetes.io/hostname"

_NO_ROWS: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Excluded:
    """Rows of nodes that a pod must not be placed on."""

    left: frozenset[int] = _NO_ROWS
    """Left by pods of its owner."""
    repelling: frozenset[int] = _NO_ROWS
    """Their pods keep it away."""

    terms: int = 0
    """How many terms of anti-affinity were looked at."""
    rows: frozenset[int] = field(init=False)
    """All of them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "rows", self.left | self.repelling)

    def best(self, ranking: Ranking) -> int | None:
        """Row with the highest total of those that are left; None: there is none."""
        row = ranking.best()
        if row is None or row not in self.rows:
            return row
        others = ranking.runners_up(1, self.rows)
        return others[0] if others else None

    def list_refusals(self, ranking: Ranking) -> Iterator[tuple[str, str, int]]:
        """Filter, reason, and how many nodes are refused by nothing else."""
        repelling = sum(ranking.passes(row) for row in self.repelling)
        if repelling:
            yield *ANTI_AFFINITY, repelling
        left = sum(ranking.passes(row) for row in self.left - self.repelling)
        if left:
            yield *MOVES, left


class Exclusions:
    """What the memory of moves and the pods that are held forbid, in terms of the placer's rows."""

    def __init__(self, moves: Moves, inventory: Inventory) -> None:
        self.moves = moves
        self._inventory = inventory

    def of(self, pod: Pod, now_ms: int) -> Excluded | None:
        """The nodes that a pod must stay away from; None: there are none.

        Rows are the placer's as it is laid out: call `Inventory.lay_out` before.
        """
        names = self.moves.avoided(pod, now_ms)
        terms = self._inventory.anti_affinity.find_terms(pod)
        if not names and not terms:
            return None
        repelling = frozenset(self._find_repelling(terms))
        found = Excluded(frozenset(self._rows(names)), repelling, len(terms))
        return found if found.rows else None

    def list_names(self, pod: Pod, now_ms: int) -> Collection[str]:
        """The names of these nodes, of those that have a place."""
        found, nodes = self.of(pod, now_ms), self._inventory.index.nodes
        return () if found is None else {nodes[row].name for row in found.rows}

    def _rows(self, names: Iterable[str]) -> Iterator[int]:
        nodes = self._inventory.nodes
        return (nodes[name].row for name in names if name in nodes and nodes[name].row >= 0)

    def _find_repelling(self, terms: Iterable[HeldTerm]) -> Iterator[int]:
        nodes = self._inventory.nodes
        places: dict[str, set[str]] = {}
        for term in terms:
            places.setdefault(term.topology_key, set()).update(term.nodes)
        for key, names in places.items():
            if key == _HOSTNAME:
                yield from self._rows(names)
                continue
            states = (nodes[name].state for name in names if name in nodes)
            values = {state.labels[key] for state in states if state and key in state.labels}
            for node in self._inventory.index.nodes:
                if node.state is not None and node.state.labels.get(key) in values:
                    yield node.row
