"""Chooses a node for a kind of pod, looking only at nodes that have changed.

For each kind of pod the placer keeps a `Ranking`: which filter refuses each node, and each node's
total. A ranking that is used again looks at the nodes that have changed since then, one by one. It
computes everything again only if it is new, if it is far behind, or if indexes of nodes have
changed.

Two filters give way in our own mode: PreferNoSchedule, then LoadAwareScheduling where the policy says
so (`whenOverloaded`). Where such a filter alone keeps a pod from every node, it is placed by a ranking
without it, on the best of the nodes that are left; without the load filter that is the one least beyond
its threshold. Moves never use these rankings.
"""

from collections.abc import Callable, Sequence

from schemas.policy import LOAD_AWARE, Policy
from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.avoided_nodes import PreferNoSchedule
from streams.placement.exact_ranking import ExactRanking
from streams.placement.exclusions import Excluded
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

#: Units of a budget that a ranking of all nodes for an ordinary kind of pods takes.
UNITS_PER_KIND = 3
#: Rankings kept; the one asked longest ago is dropped first.
KINDS_MAX = 512
#: Bytes of the rankings kept: 512 of common kinds over 10,000 nodes.
RANKINGS_BYTES_MAX = 128 * 1024 * 1024
#: Bytes of a ranking for each node: totals, raw scores, which filter refuses it.
_BYTES_PER_NODE = 24

#: The filters that a policy enables, and its scores with their weights.
Plugins = tuple[Sequence[Filter], Sequence[tuple[Score, int]]]


def enabled(policy: Policy, estimator: Estimator) -> Plugins:
    """What a policy enables."""
    filters = build_filters(policy, estimator)
    if policy.compat == "loadstream" and policy.plugins.filters(TaintToleration.name):
        filters.append(PreferNoSchedule())
    return filters, build_scores(policy, estimator)


class Placer:
    """Columns of all plugins over the nodes of an inventory, and a ranking for each kind of pod."""

    def __init__(
        self, inventory: Inventory, plugins: Callable[[Policy, Estimator], Plugins] = enabled
    ) -> None:
        """Watch the nodes of an inventory; `plugins` makes those that a policy enables."""
        self.inventory = inventory
        self.index = inventory.index
        self._made = plugins
        self.judge_anew()
        inventory.watch(self)

    def judge_anew(self) -> None:
        """Another policy judges the nodes."""
        filters, scores = self._made(self.inventory.policy, self.inventory.estimator)
        self.filters, self.scores = tuple(filters), tuple(scores)
        self._plugins: tuple[Plugin, ...] = (*self.filters, *(score for score, _ in scores))
        self._watching = [
            [plugin.refresh for plugin in self._plugins if plugin.watches & change]
            for change in range(Change.ALL + 1)
        ]
        self._giving_way = [PreferNoSchedule.name]
        if self.inventory.policy.when_overloaded == "leastBad":
            self._giving_way.append(LOAD_AWARE)
        self._rankings = SizedCache[bytes, Ranking](RANKINGS_BYTES_MAX, KINDS_MAX)

    def relayout(self, source: IntArray) -> None:
        """Places of nodes have moved. Rankings are computed anew."""
        for plugin in self._plugins:
            plugin.relayout(source)
        self._rankings.clear()

    def refresh(self, row: int, node: Node, change: int) -> None:
        """Something about a node has changed: bring its columns up to date."""
        now_ms = self.inventory.now_ms
        for refresh in self._watching[change]:
            refresh(row, node, now_ms)

    def rank(self, kind: Kind) -> Ranking:
        """The ranking of a kind of pod by all filters, up to date."""
        self.inventory.lay_out()
        ranking = self._get(kind, 0)
        ranking.sync()
        return ranking

    def rank_to_place(self, kind: Kind, excluded: Excluded | None = None) -> Ranking:
        """The ranking by which a pod is placed: filters that alone refuse all nodes have given way.

        Args:
            kind: of the pod.
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

    def find_refusing(self, kind: Kind, row: int) -> Filter | None:
        """The first filter that keeps a kind from a node whatever gives way; None: the node takes it."""
        return self._get(kind, len(self._giving_way)).find_refusing(row)

    def count_units(self, kind: Kind) -> int:
        """Units of a budget that an attempt for a kind takes, where all nodes have to be ranked."""
        return UNITS_PER_KIND + self._get(kind, 0).count_units()

    def _get(self, kind: Kind, giving_way: int) -> Ranking:
        """The ranking of a kind where so many filters have given way, as it was used last."""
        key = kind.key + bytes([giving_way])
        ranking = self._rankings.renew(key)
        if ranking is None:
            without = self._giving_way[:giving_way]
            filters = [each for each in self.filters if each.name not in without]
            scores = self.scores
            if LOAD_AWARE in without:
                scores = tuple(
                    (LeastOverloaded(each), 1)
                    for each in self.filters
                    if isinstance(each, LoadAwareFilter)
                )
            exact = len(scores) == 1 and isinstance(scores[0][0], ExactScore)
            ranking = (ExactRanking if exact else Ranking)(self.index, filters, scores, kind)
            # What the plugins have prepared takes about as much as the kind.
            size = _BYTES_PER_NODE * self.index.size + 2 * kind.size
            self._rankings.put(key, ranking, size)
        return ranking
