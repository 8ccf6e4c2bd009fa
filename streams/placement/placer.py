"""Ranks nodes for a kind of pod, recomputing only nodes that have changed.

For each kind of pod the placer keeps a `Ranking`: which filter refuses each node, and each node's
total. When a ranking is used again, it updates the rows of nodes that have changed meanwhile. It
computes all rows only if it is new, if many nodes have changed, or if nodes have other rows.

Two filters can give way, unless `compat` is koordinator: PreferNoSchedule, and then
LoadAwareScheduling if the policy's `whenOverloaded` is leastBad. If no node passes because of such a
filter, the pod is placed by a ranking without the filter. Without the load filter, the best node is the
one least above its thresholds. Moves never use these rankings.
"""

from collections.abc import Collection

import numpy as np

from schemas.policy import LOAD_AWARE
from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.filters.load_aware import LeastOverloaded, LoadAwareFilter
from streams.placement.filters.taints import PreferNoSchedule
from streams.placement.plugin import Filter, Plugin, Score
from streams.placement.ranking import Ranking
from streams.placement.registry import build_filters, build_scores
from streams.pods.kind import Kind
from streams.stage.arrays import IntArray
from streams.stage.sized_cache import SizedCache

#: Units of a budget for ranking all nodes, for a kind whose filters cost no more than usual.
UNITS_PER_KIND = 3
#: Rankings kept; the least recently used one is dropped first.
KINDS_MAX = 512
#: Bytes of the rankings kept: 512 of common kinds over 10,000 nodes.
RANKINGS_BYTES_MAX = 128 * 1024 * 1024
#: Bytes of a ranking for each node: totals, raw scores, which filter refuses it.
_BYTES_PER_NODE = 24


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
        self._giving_way = [PreferNoSchedule.name]
        if policy.when_overloaded == "leastBad":
            self._giving_way.append(LOAD_AWARE)
        self._rankings = SizedCache[bytes, Ranking](RANKINGS_BYTES_MAX, KINDS_MAX)
        self._nodes = []

    def refresh(self) -> None:
        """Update the columns: after each record, so that no record has to update many nodes."""
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
        """Move the rows of all plugins; rankings are computed again."""
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
        self.inventory.lay_out()
        ranking = self._get(kind, 0)
        ranking.sync()
        return ranking

    def rank_to_place(self, kind: Kind, without: Collection[int] = ()) -> Ranking:
        """Return the ranking for placing a pod: without filters that can give way, if no node passes.

        Rows in `without` count as nodes that do not pass.
        """
        strict = ranking = self.rank(kind)
        for count, name in enumerate(self._giving_way, start=1):
            if ranking.best(without) is not None:
                break
            if strict.refused_by_name.get(name):
                ranking = self._get(kind, count)
                ranking.strict = strict
                ranking.sync()
        return ranking

    def find_refusing_filter(self, kind: Kind, row: int) -> Filter | None:
        """Return the first filter that refuses a node and cannot give way; None if there is none."""
        return self._get(kind, len(self._giving_way)).find_refusing_filter(row)

    def count_units(self, kind: Kind) -> int:
        """Return the units of a budget for ranking all nodes for a kind."""
        return UNITS_PER_KIND + self._get(kind, 0).count_units()

    def _get(self, kind: Kind, giving_way: int) -> Ranking:
        """Return the ranking of a kind without the first `giving_way` of the filters that can give way."""
        self.refresh()
        key = kind.key + bytes([giving_way])
        ranking = self._rankings.renew(key)
        if ranking is None:
            without = self._giving_way[:giving_way]
            filters = [plugin for plugin in self.filters if plugin.name not in without]
            scores: list[tuple[Score, int]] = self.scores
            if LOAD_AWARE in without:
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
