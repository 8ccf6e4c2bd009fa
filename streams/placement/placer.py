"""Ranks nodes for a kind of pod, recomputing only nodes that have changed.

For each kind of pod the placer keeps a `Ranking`: which filter refuses each node, and each node's
total. When a ranking is used again, it updates the rows of nodes that have changed meanwhile. It
computes all rows only if it is new, if many nodes have changed, or if nodes have other rows.

Two filters can give way, unless `compat` is koordinator: PreferNoSchedule, and then
LoadAwareScheduling if the policy's `whenOverloaded` is leastBad. If no node passes because of such a
filter, the pod is placed by a ranking without the filter. Without the load filter, the best node is the
one least above its thresholds. Moves never use these rankings.
"""

from collections.abc import Callable, Sequence

from schemas.policy import LOAD_AWARE, Policy
from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.avoided_nodes import PreferNoSchedule
from streams.placement.exact_ranking import ExactRanking
from streams.placement.exclusions import ExcludedNodes
from streams.placement.filters.load_aware import LoadAwareFilter
from streams.placement.filters.taints import TaintToleration
from streams.placement.least_overloaded import LeastOverloaded
from streams.placement.plugin import ExactScore, Filter, Plugin, Score
from streams.placement.ranking import Ranking
from streams.placement.registry import build_filters, build_scores
from streams.pods.kind import Kind
from streams.stage.arrays import IntArray
from streams.stage.sized_cache import SizedCache
from streams.usage.estimate import Estimator

#: Units of a budget for ranking all nodes, for a kind whose filters cost no more than usual.
UNITS_PER_KIND = 3
#: Rankings kept; the least recently used one is dropped first.
KINDS_MAX = 512
#: Bytes of the rankings kept: 512 of common kinds over 10,000 nodes.
RANKINGS_BYTES_MAX = 128 * 1024 * 1024
#: Bytes of a ranking for each node: totals, raw scores, which filter refuses it.
_BYTES_PER_NODE = 24

#: The filters that a policy enables, and its scores with their weights.
Plugins = tuple[Sequence[Filter], Sequence[tuple[Score, int]]]


def build_plugins(policy: Policy, estimator: Estimator) -> Plugins:
    filters = build_filters(policy, estimator)
    if policy.compat == "loadstream" and policy.plugins.filters(TaintToleration.name):
        filters.append(PreferNoSchedule())
    return filters, build_scores(policy, estimator)


class Placer:
    """Columns of all plugins over the nodes of an inventory, and a ranking for each kind of pod."""

    def __init__(
        self, inventory: Inventory, plugins: Callable[[Policy, Estimator], Plugins] = build_plugins
    ) -> None:
        """Watch the nodes of an inventory; `plugins` builds the plugins of its policy."""
        self.inventory = inventory
        self.index = inventory.index
        self._build_plugins = plugins
        self.apply_policy()
        inventory.watch(self)

    def apply_policy(self) -> None:
        """Build the plugins of the inventory's policy."""
        filters, scores = self._build_plugins(self.inventory.policy, self.inventory.estimator)
        self.filters, self.scores = tuple(filters), tuple(scores)
        self._plugins: tuple[Plugin, ...] = (*self.filters, *(score for score, _ in scores))
        self._refresh_by_change = [
            [plugin.refresh for plugin in self._plugins if plugin.watches & change]
            for change in range(Change.ALL + 1)
        ]
        self._giving_way = [PreferNoSchedule.name]
        if self.inventory.policy.when_overloaded == "leastBad":
            self._giving_way.append(LOAD_AWARE)
        self._rankings = SizedCache[bytes, Ranking](RANKINGS_BYTES_MAX, KINDS_MAX)

    def relayout(self, source: IntArray) -> None:
        """Move rows of all plugins; rankings are computed again."""
        for plugin in self._plugins:
            plugin.relayout(source)
        self._rankings.clear()

    def refresh(self, row: int, node: Node, change: int) -> None:
        """Refresh the columns of the plugins that watch a change of a node."""
        now_ms = self.inventory.now_ms
        for refresh in self._refresh_by_change[change]:
            refresh(row, node, now_ms)

    def rank(self, kind: Kind) -> Ranking:
        """Return the up-to-date ranking of a kind by all filters."""
        self.inventory.lay_out()
        ranking = self._get(kind, 0)
        ranking.sync()
        return ranking

    def rank_to_place(self, kind: Kind, excluded: ExcludedNodes | None = None) -> Ranking:
        """Return the ranking for placing a pod: without filters that can give way, if no node passes.

        Args:
            kind: kind of the pod.
            excluded: nodes that this pod must stay away from.
        """
        strict = ranking = self.rank(kind)
        for count, name in enumerate(self._giving_way, start=1):
            best = ranking.best() if excluded is None else excluded.best(ranking)
            if best is not None:
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
        key = kind.key + bytes([giving_way])
        ranking = self._rankings.renew(key)
        if ranking is None:
            without = self._giving_way[:giving_way]
            filters = [plugin for plugin in self.filters if plugin.name not in without]
            scores = self.scores
            if LOAD_AWARE in without:
                scores = tuple(
                    (LeastOverloaded(plugin), 1)
                    for plugin in self.filters
                    if isinstance(plugin, LoadAwareFilter)
                )
            exact = len(scores) == 1 and isinstance(scores[0][0], ExactScore)
            ranking = (ExactRanking if exact else Ranking)(self.index, filters, scores, kind)
            # The results of `Plugin.prepare` take about as many bytes as the kind.
            size = _BYTES_PER_NODE * self.index.size + 2 * kind.size
            self._rankings.put(key, ranking, size)
        return ranking
