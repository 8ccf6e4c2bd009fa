"""Chooses the node for one pod: the best node of the pod's kind that is not excluded for this pod.

For each kind of pod the placer keeps a `Ranking`: which filter refuses each node, and each node's
total. A ranking that is used again updates the rows of changed nodes. It computes all rows if it is new,
if many nodes have changed, or if rows have moved.

Two filters are soft, unless `compat` is koordinator: PreferNoSchedule, and then LoadAwareScheduling if
the policy's `whenOverloaded` is leastBad. If no node passes because of a soft filter, the pod is placed
by a ranking without this filter. Without the load filter, the best node is the node least above its
thresholds. Moves never use these rankings.

A pod's owner, namespace and most labels are not part of its kind. So nodes that are excluded for one pod
are removed from the ranking's result, and the best of the other nodes is used. Two sorts of nodes are
excluded:

- nodes that pods of the same owner left while the nodes were hot,
- nodes of pods whose required anti-affinity selects the pod.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from schemas.messages.pods import Pod
from schemas.policy import LOAD_AWARE
from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.inventory.pod_index import AntiAffinityTerm
from streams.moves.history import MoveHistory
from streams.placement.filters.load_aware import LeastOverloaded, LoadAwareFilter
from streams.placement.filters.taints import PreferNoSchedule
from streams.placement.plugin import Filter, Plugin, Score
from streams.placement.ranking import Ranking
from streams.placement.registry import build_filters, build_scores
from streams.pods.kind import Kind
from streams.stage.arrays import IntArray
from streams.stage.sized_cache import SizedCache

#: Units of a budget for ranking all nodes for a kind without expensive requirements.
UNITS_PER_KIND = 3
#: Most rankings in the cache. The least recently used ranking is dropped first.
KINDS_MAX = 512
#: Most bytes of these rankings: 512 rankings of common kinds over 10,000 nodes.
RANKINGS_BYTES_MAX = 128 * 1024 * 1024
#: Bytes of a ranking for each node: totals, raw scores, which filter refuses it.
_BYTES_PER_NODE = 24
#: Filter and reason that decisions report for excluded nodes.
MOVES = "RecentMoves", "node(s) left by this owner while hot"
ANTI_AFFINITY = "InterPodAffinity", "node(s) didn't satisfy existing pods anti-affinity rules"
#: The node label whose value is unique to each node.
_HOSTNAME = "kubernetes.io/hostname"

_NO_ROWS: frozenset[int] = frozenset()


class Placer:
    """Columns of all plugins over the nodes of an inventory, and a ranking for each kind of pod."""

    def __init__(self, inventory: Inventory) -> None:
        self.inventory = inventory
        self.index = inventory.index
        self._nodes: list[Node] = []
        """Nodes by row of the columns."""
        self._generation = -1
        """Generation of the index that the columns belong to."""
        self._position = 0
        """Position in the log of changes up to which the columns are current."""
        self._build_plugins()

    def _build_plugins(self) -> None:
        policy, self._estimator = self.inventory.policy, self.inventory.estimator
        self.filters = build_filters(policy, self._estimator)
        self.scores = build_scores(policy, self._estimator)
        self._plugins: list[Plugin] = [*self.filters, *(score for score, _ in self.scores)]
        self._refresh_by_change = [
            [plugin.refresh for plugin in self._plugins if plugin.watches & change]
            for change in range(Change.ALL + 1)
        ]
        self._soft_filters = [PreferNoSchedule.name]
        if policy.when_overloaded == "leastBad":
            self._soft_filters.append(LOAD_AWARE)
        self._rankings = SizedCache[bytes, Ranking](RANKINGS_BYTES_MAX, KINDS_MAX)
        self._nodes = []

    def refresh(self) -> None:
        """Update the columns. Called after each record, so that no record has to update many nodes."""
        inventory, index = self.inventory, self.index
        if inventory.estimator is not self._estimator:
            self._build_plugins()
        if index.generation != self._generation:
            self._relayout()
        entries = index.log[max(0, self._position - index.log_start) :]
        if self._position < index.log_start:
            entries = [(node, Change.ALL) for node in index.nodes]
        for node, change in entries:
            if node.row >= 0:
                for refresh in self._refresh_by_change[change]:
                    refresh(node.row, node, inventory.now_ms)
        self._position = index.log_end

    def _relayout(self) -> None:
        """Move the rows of all plugins, and drop the rankings."""
        old_rows = {id(node): row for row, node in enumerate(self._nodes)}
        self._nodes = self.index.nodes
        rows = [old_rows.get(id(node), -1) for node in self._nodes]
        source: IntArray = np.array(rows, dtype=np.int64)
        for plugin in self._plugins:
            plugin.relayout(source)
        self._rankings.clear()
        self._generation = self.index.generation

    def rank(self, kind: Kind) -> Ranking:
        """Return the up-to-date ranking of a kind by all filters."""
        self.inventory.update_index()
        ranking = self._get_ranking(kind, 0)
        ranking.sync()
        return ranking

    def rank_to_place(self, kind: Kind, without: Collection[int] = ()) -> Ranking:
        """Return the ranking for placing a pod: without soft filters if no node passes all filters.

        Rows in `without` count as nodes that do not pass.
        """
        strict = ranking = self.rank(kind)
        for count, name in enumerate(self._soft_filters, start=1):
            if ranking.find_best(without) is not None:
                break
            if strict.refused_by_name.get(name):
                ranking = self._get_ranking(kind, count)
                ranking.strict = strict
                ranking.sync()
        return ranking

    def find_refusing_filter(self, kind: Kind, row: int) -> Filter | None:
        """Return the first filter that refuses a node and is not soft; None if there is none."""
        return self._get_ranking(kind, len(self._soft_filters)).find_refusing_filter(row)

    def count_units(self, kind: Kind) -> int:
        """Return the units of a budget for ranking all nodes for a kind."""
        return UNITS_PER_KIND + self._get_ranking(kind, 0).count_units()

    def _get_ranking(self, kind: Kind, dropped: int) -> Ranking:
        """Return the ranking of a kind without the first `dropped` soft filters."""
        self.refresh()
        key = kind.key + bytes([dropped])
        ranking = self._rankings.renew(key)
        if ranking is None:
            names = self._soft_filters[:dropped]
            filters = [plugin for plugin in self.filters if plugin.name not in names]
            scores: list[tuple[Score, int]] = self.scores
            if LOAD_AWARE in names:
                scores = [
                    (LeastOverloaded(plugin), 1)
                    for plugin in self.filters
                    if isinstance(plugin, LoadAwareFilter)
                ]
            ranking = Ranking(self.index, filters, scores, kind)
            # The results of `Plugin.prepare` take about as many bytes as the kind.
            size = _BYTES_PER_NODE * self.index.size + 2 * kind.size
            self._rankings.put(key, ranking, size)
        return ranking


# --- exclusions ---------------------------------------------------------------------------------


@dataclass(frozen=True)
class ExcludedNodes:
    """Rows of nodes that a pod must not be placed on."""

    left_by_owner: frozenset[int] = _NO_ROWS
    """Nodes that pods of the pod's owner left."""
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
        left_nodes = sum(ranking.passes(row) for row in self.left_by_owner - self.repelling)
        if left_nodes:
            yield *MOVES, left_nodes


class Choice(NamedTuple):
    """The node for a pod, if there is one."""

    ranking: Ranking
    """The ranking from which the node was chosen."""
    row: int | None
    """Row of the node; None if no node accepts the pod."""
    excluded: ExcludedNodes | None
    """None if no node is excluded, or if no node accepts the kind, so that exclusions do not matter."""


class Exclusions:
    def __init__(self, moves: MoveHistory, inventory: Inventory) -> None:
        self.moves = moves
        self._inventory = inventory

    def choose_node(
        self, placer: Placer, pod: Pod, kind: Kind, reserved_node: str | None, now_ms: int
    ) -> Choice:
        """Choose the node whose room is reserved for the pod, else the best node."""
        ranking = placer.rank_to_place(kind)
        row = ranking.find_best()
        node = self._inventory.nodes.get(reserved_node or "")
        if node is not None and node.row >= 0 and ranking.passes(node.row):
            row = node.row
        excluded = None if row is None else self.find_excluded(pod, now_ms)
        if excluded is not None and row in excluded.rows:
            return self.choose_outside(placer, kind, excluded)
        return Choice(ranking, row, excluded)

    def choose_outside(self, placer: Placer, kind: Kind, excluded: ExcludedNodes) -> Choice:
        """Choose the best node that is not excluded, else the best that the owner left, if load may give way."""
        for rows in (excluded.rows, excluded.repelling):
            ranking = placer.rank_to_place(kind, rows)
            row = ranking.find_best(rows)
            if row is not None or self._inventory.policy.when_overloaded == "wait":
                break
        return Choice(ranking, row, excluded)

    def find_excluded(self, pod: Pod, now_ms: int) -> ExcludedNodes | None:
        """Return the nodes that a pod must not be placed on; None if there are none.

        Call `Inventory.update_index` first. The rows are valid until the next layout.
        """
        anti_affinity = self._inventory.anti_affinity
        if not self.moves.rows and not anti_affinity:
            return None
        names = self.moves.find_avoided(pod.owner_key, now_ms)
        terms = anti_affinity.find_terms(pod)
        repelling = frozenset(self._find_repelling(terms))
        excluded = ExcludedNodes(frozenset(self._find_rows(names)), repelling, len(terms))
        return excluded if excluded.rows else None

    def list_excluded_names(self, pod: Pod, now_ms: int) -> Collection[str]:
        """Return the names of the excluded nodes that have a row."""
        excluded, nodes = self.find_excluded(pod, now_ms), self._inventory.index.nodes
        return () if excluded is None else {nodes[row].name for row in excluded.rows}

    def _find_rows(self, names: Iterable[str]) -> Iterator[int]:
        nodes = self._inventory.nodes
        return (nodes[name].row for name in names if name in nodes and nodes[name].row >= 0)

    def _find_repelling(self, terms: Iterable[AntiAffinityTerm]) -> Iterator[int]:
        nodes = self._inventory.nodes
        names_by_topology: dict[str, set[str]] = {}
        for term in terms:
            names_by_topology.setdefault(term.topology_key, set()).update(term.nodes)
        for key, names in names_by_topology.items():
            if key == _HOSTNAME:
                yield from self._find_rows(names)
                continue
            states = (nodes[name].state for name in names if name in nodes)
            values = {state.labels[key] for state in states if state and key in state.labels}
            if not values:  # no need to scan all nodes
                continue
            for node in self._inventory.index.nodes:
                if node.state is not None and node.state.labels.get(key) in values:
                    yield node.row
