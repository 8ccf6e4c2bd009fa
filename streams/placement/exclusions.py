"""Choose the node for one pod, without the nodes that are excluded for this pod.

Pods of one kind share a ranking. A pod's owner, namespace and most labels are not part of its kind.
So nodes that are excluded for one pod are removed from the ranking's result, and the best of the
other nodes is used. Two sorts of nodes are excluded:

- nodes that pods of the same owner left while the nodes were hot,
- nodes of pods whose required anti-affinity selects the pod.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from schemas.messages.pods import Pod
from streams.inventory.inventory import Inventory
from streams.inventory.pod_index import HeldTerm
from streams.moves.history import Moves
from streams.placement.placer import Placer
from streams.placement.ranking import Ranking
from streams.pods.kind import Kind

#: Filter and reason that decisions report for excluded nodes.
MOVES = "RecentMoves", "node(s) left by this owner while hot"
ANTI_AFFINITY = "InterPodAffinity", "node(s) didn't satisfy existing pods anti-affinity rules"
#: The node label whose value is unique to each node.
_HOSTNAME = "kubernetes.io/hostname"

_NO_ROWS: frozenset[int] = frozenset()


@dataclass(frozen=True)
class ExcludedNodes:
    """Rows of nodes that a pod must not be placed on."""

    left_by_owner: frozenset[int] = _NO_ROWS
    """Nodes that pods of its owner left."""
    repelling: frozenset[int] = _NO_ROWS
    """Nodes with pods whose anti-affinity selects the pod."""

    terms: int = 0
    """Number of anti-affinity terms that were evaluated."""

    @cached_property
    def rows(self) -> frozenset[int]:
        return self.left_by_owner | self.repelling

    def list_refusals(self, ranking: Ranking) -> Iterator[tuple[str, str, int]]:
        """Yield filter, reason, and the number of nodes that no other filter refuses."""
        repelling = sum(ranking.passes(row) for row in self.repelling)
        if repelling:
            yield *ANTI_AFFINITY, repelling
        left = sum(ranking.passes(row) for row in self.left_by_owner - self.repelling)
        if left:
            yield *MOVES, left


class Choice(NamedTuple):
    """The node for a pod, if there is one."""

    ranking: Ranking
    """The ranking from which the node was chosen."""
    row: int | None
    """Row of the node; None if no node accepts the pod."""
    excluded: ExcludedNodes | None
    """None if no node is excluded. Also None if no node accepts the kind, as exclusions do not matter then."""


class Exclusions:
    def __init__(self, moves: Moves, inventory: Inventory) -> None:
        self.moves = moves
        self._inventory = inventory

    def choose_node(
        self, placer: Placer, pod: Pod, kind: Kind, reserved_node: str | None, now_ms: int
    ) -> Choice:
        """Choose the node whose room is reserved for the pod, else the best node."""
        ranking = placer.rank_to_place(kind)
        row = ranking.best()
        node = self._inventory.nodes.get(reserved_node or "")
        if node is not None and node.row >= 0 and ranking.passes(node.row):
            row = node.row
        excluded = None if row is None else self.find(pod, now_ms)
        if excluded is not None and row in excluded.rows:
            ranking = placer.rank_to_place(kind, excluded.rows)
            row = ranking.best(excluded.rows)
        return Choice(ranking, row, excluded)

    def find(self, pod: Pod, now_ms: int) -> ExcludedNodes | None:
        """Return the nodes that a pod must stay away from; None if there are none.

        Rows are valid until the next layout; call `Inventory.lay_out` before.
        """
        names = self.moves.find_avoided(pod, now_ms)
        terms = self._inventory.anti_affinity.find_terms(pod)
        if not names and not terms:
            return None
        repelling = frozenset(self._find_repelling(terms))
        excluded = ExcludedNodes(frozenset(self._rows(names)), repelling, len(terms))
        return excluded if excluded.rows else None

    def list_names(self, pod: Pod, now_ms: int) -> Collection[str]:
        """Return the names of the excluded nodes that have a row."""
        excluded, nodes = self.find(pod, now_ms), self._inventory.index.nodes
        return () if excluded is None else {nodes[row].name for row in excluded.rows}

    def _rows(self, names: Iterable[str]) -> Iterator[int]:
        nodes = self._inventory.nodes
        return (nodes[name].row for name in names if name in nodes and nodes[name].row >= 0)

    def _find_repelling(self, terms: Iterable[HeldTerm]) -> Iterator[int]:
        nodes = self._inventory.nodes
        names_by_topology: dict[str, set[str]] = {}
        for term in terms:
            names_by_topology.setdefault(term.topology_key, set()).update(term.nodes)
        for key, names in names_by_topology.items():
            if key == _HOSTNAME:
                yield from self._rows(names)
                continue
            states = (nodes[name].state for name in names if name in nodes)
            values = {state.labels[key] for state in states if state and key in state.labels}
            if not values:  # pods may name any key, but few keys are labels of nodes
                continue
            for node in self._inventory.index.nodes:
                if node.state is not None and node.state.labels.get(key) in values:
                    yield node.row
