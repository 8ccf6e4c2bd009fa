"""OverutilizationRisk: prefers nodes that a pod makes least likely to be used beyond what they should.

A node's cost (`streams.risk.overutilization`) follows from mean and variance of its usage, a
pod's from its request and what the fleet uses of requests. The pod goes where the sum of costs grows least; `TIE` x the share of the node that is used
on average with it is added and decides among nodes that cost nothing. With several resources,
increases are weighed and added up.

The raw score is one over the increase, and highest at `LEAST`: as raw scores are stretched to
0..100, steps are finest where the best nodes are, and one node that would be ruined does not make
all others equal. Where this is the only score, increases themselves decide: the merit of a node is
its increase below 0, and no division is needed.

What a pod adds to the cost of one resource depends on its mean and variance alone. Kinds of pods
that request the same share it, so it is kept from the second kind on, and worked out again for
nodes that have changed. Kept for each kind it would cost a cold one a third more: what is written
to memory that nothing has looked at for long takes as long as all that it is worked out of.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

import numpy as np

from schemas.policy import OVERUTILIZATION_RISK, OverutilizationRiskArgs, Policy
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.plugin import Score
from streams.pods.kind import Kind
from streams.pods.priority import resolve_demand
from streams.risk.fleet_usage import FleetUsage, get_prior_usage
from streams.risk.overutilization import NODE_DEVIATION, TIE, CostArrays, cost_function, scale_of
from streams.stage.arrays import FloatArray, IntArray
from streams.stage.sized_cache import SizedCache
from streams.usage.estimate import Estimator

#: Mean increases below this are all the same: a node that is used by a thousandth, at no risk.
LEAST = 0.0000001
#: Added to what a pod costs a node for each resource of whose usage nothing is known: more than a node
#: costs that becomes hot for certain. So known nodes come first, and unknown ones by their requests.
UNKNOWN_COST = 2.0

#: Increases over all nodes that are kept, and bytes of them: requests come in round numbers.
KEPT_MAX, KEPT_BYTES_MAX = 128, 16 * 1024 * 1024
#: Increases that were asked for once and are kept if they are asked for again.
_MET_MAX, _KEY_BYTES = 1_024, 200
#: Increases with more changed nodes than this share of all are worked out anew.
_RECOMPUTE_SHARE = 1 / 100

_MILLION = 1_000_000
_OWN_VARIANCE = NODE_DEVIATION * NODE_DEVIATION


#: What a pod says that it needs, by resource: millicores, bytes, pieces.
Prepared = tuple[int, ...]
#: A resource, and mean and variance of what a pod uses of it.
_Key = tuple[int, float, float]


@dataclass(slots=True)
class Merits:
    """What one mean and variance add to the cost of one resource, below 0."""

    values: FloatArray
    """Times the weight of the resource; shape (nodes,)."""
    position: int
    """How many of the changed rows are in it."""


class OverutilizationRiskScore(Score):
    """Prefers nodes whose risk to be hot, and expected excess, grow least."""

    name = OVERUTILIZATION_RISK
    watches = Change.ALL
    normalised = True
    columns = ("_before", "_given", "_mean", "_per_unit", "_rows", "_square", "_variance")

    def __init__(self, args: OverutilizationRiskArgs) -> None:
        self._resources = tuple(resource.name for resource in args.resources)
        self._hot = tuple(resource.hot_share for resource in args.resources)
        weights = [resource.weight for resource in args.resources]
        # The largest one counts whole, so that none has to be multiplied where all are alike.
        self._weights = tuple(weight / max(weights) for weight in weights)
        self._least = LEAST * (sum(weights) / max(weights))
        self._fleet: tuple[FleetUsage, ...] = get_prior_usage(args)
        self._last: tuple[Prepared, Sequence[FleetUsage], list[tuple[float, float]]] | None = None
        """A pod, the fleet's figures, and what they say it uses: asked for row by row."""
        weight = float(args.excess_weight)
        self._cost, self._costs = cost_function(weight), CostArrays(weight)
        self._scale = scale_of(weight)
        self._tie = TIE / self._scale.mean
        self._ties: FloatArray = np.array(self._tie)
        """The same as numpy takes it in soonest; shape ()."""
        shape = (len(self._resources), 0)
        self._mean: FloatArray = np.zeros(shape)
        """Mean usage less the hot share, as a share of the node, scaled; shape (resources, nodes)."""
        self._variance: FloatArray = np.zeros(shape)
        """Variance of usage, as a share of the node squared, scaled."""
        self._before: FloatArray = np.zeros(shape)
        """Cost of the node without the pod, less `TIE` x the hot share, and less `UNKNOWN_COST` where
        nothing is known."""
        self._per_unit: FloatArray = np.zeros(shape)
        """One over the capacity, scaled as means are."""
        self._square: FloatArray = np.zeros(shape)
        """One over the capacity, squared, scaled as variances are."""
        self._make_room(0)
        self._rows: list[list[tuple[float, float, float, float, float]] | None] = []
        """The five figures by row, one entry per resource."""
        self._given: list[list[tuple[int, float, float, bool]] | None] = []
        """Capacity, mean, variance and whether usage is known, which those were worked out of."""
        self._kept = SizedCache[_Key, Merits](KEPT_BYTES_MAX, KEPT_MAX)
        self._met = SizedCache[_Key, bool](_MET_MAX * _KEY_BYTES, _MET_MAX)
        """What was asked for once."""
        self._changed: list[int] = []
        """Rows that have changed since the oldest of those was worked out; some more than once."""

    @classmethod
    def build(cls, policy: Policy, estimator: Estimator) -> Self:
        return cls(policy.overutilization_risk)

    def relayout(self, source: IntArray) -> None:
        super().relayout(source)
        self._make_room(source.size)
        self._forget()

    def _make_room(self, size: int) -> None:
        """Make working arrays for this many nodes."""
        work: FloatArray = np.empty((len(self._resources) + 1, size))
        self._spread: FloatArray = work[-1]
        columns = self._mean, self._variance, self._before, self._per_unit, self._square, work[:-1]
        self._lines: list[tuple[FloatArray, ...]] = list(zip(*columns, strict=True))
        """Of each resource its five columns, and a working array."""
        # An array: to compare with a number takes numpy twice as long.
        self._most: FloatArray = np.full(size, -self._least)

    def _forget(self) -> None:
        self._kept.clear()
        self._changed.clear()

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        figures = [(0.0, 0.0)] * len(self._resources)
        if node.statistics is not None:
            self._fleet = node.statistics.fleet.figures
            figures = node.statistics.figures()
        unknown = {each.what for each in node.missing if not each.instead}
        given = [
            (node.capacity.get(resource, 0), mean, variance, node.fresh and resource not in unknown)
            for resource, (mean, variance) in zip(self._resources, figures, strict=True)
        ]
        if given == self._given[row]:
            return  # as after most metrics
        self._given[row] = given
        if len(self._kept):
            self._changed.append(row)
            if len(self._changed) > len(self._rows):
                self._forget()
        rows = self._rows[row] = []
        for index, (capacity, mean, variance, known) in enumerate(given):
            per_unit = 1.0 / (float(max(capacity, 0)) or 1.0)
            square = per_unit * per_unit
            share = (mean * per_unit - self._hot[index]) * self._scale.mean
            spread = (variance * square + _OWN_VARIANCE) * self._scale.variance
            per_unit, square = per_unit * self._scale.mean, square * self._scale.variance
            # `TIE` is for all that the node is expected to use: the share beyond the hot one, which
            # is what is known of it, and the hot one.
            before = self._cost(share, spread) - TIE * self._hot[index]
            if not known:
                before -= UNKNOWN_COST
            self._mean[index, row], self._variance[index, row] = share, spread
            self._before[index, row] = before
            self._per_unit[index, row], self._square[index, row] = per_unit, square
            rows.append((share, spread, before, per_unit, square))

    def prepare(self, kind: Kind) -> Prepared:
        return tuple(
            resolve_demand(resource, kind.demand, kind.priority_class)
            for resource in self._resources
        )

    def _expected(self, prepared: Prepared) -> list[tuple[float, float]]:
        """Mean and variance of a pod that was not measured, by resource."""
        last = self._last
        if last is None or last[0] is not prepared or last[1] is not self._fleet:
            expected = [
                (
                    amount * fleet.usage_ppm / _MILLION,
                    amount * amount * (fleet.variance_ppm + fleet.spread_ppm) / _MILLION,
                )
                for amount, fleet in zip(prepared, self._fleet, strict=True)
            ]
            last = self._last = prepared, self._fleet, expected
        return last[2]

    def scores(self, prepared: Prepared) -> FloatArray:
        total, *others = [
            self._merits(index, mean, variance)
            for index, (mean, variance) in enumerate(self._expected(prepared))
        ]
        for merits in others:
            total = total + merits
        # A new array, because `total` may be a cached one.
        total = np.minimum(total, self._most)
        return np.divide(-1.0, total, out=total)

    def score(self, prepared: Prepared, row: int) -> float:
        figures = self._rows[row]
        assert figures is not None  # noqa: S101 - every row is refreshed before it is read
        increase = 0.0
        for weight, (mean, variance), own in zip(
            self._weights, self._expected(prepared), figures, strict=True
        ):
            increase += self._increase(own, mean, variance) * weight
        return 1.0 / max(increase, self._least)

    def _increase(
        self, figures: tuple[float, float, float, float, float], mean: float, variance: float
    ) -> float:
        """What a pod adds to the cost of one resource of one node."""
        share, own, before, per_unit, square = figures
        after = per_unit * mean + share
        return self._cost(after, square * variance + own) + self._tie * after - before

    def _merits(self, index: int, mean: float, variance: float) -> FloatArray:
        """The same of all nodes, below 0 and times the weight of the resource; shape (nodes,).

        It may be kept, so nobody may change it; else it is overwritten by the next call.
        """
        key = index, mean, variance
        kept = self._kept.renew(key)
        if kept is not None:
            changed = self._changed[kept.position :]
            if len(changed) <= len(self._rows) * _RECOMPUTE_SHARE:
                for row in changed:
                    figures = self._rows[row]
                    assert figures is not None  # noqa: S101 - it was refreshed, so it is there
                    increase = self._increase(figures[index], mean, variance)
                    kept.values[row] = -(increase * self._weights[index])
                kept.position = len(self._changed)
                return kept.values
        means, variances, before, per_unit, square, after = self._lines[index]
        spread = self._spread
        np.multiply(per_unit, mean, out=after)
        after += means
        np.multiply(square, variance, out=spread)
        spread += variances
        cost = self._costs.costs(after, spread)
        after *= self._ties
        after += cost
        np.subtract(before, after, out=after)
        if self._weights[index] != 1.0:
            after *= self._weights[index]
        if kept is not None or self._met.get(key):
            self._kept.put(key, Merits(after.copy(), len(self._changed)), after.nbytes)
        else:
            self._met.put(key, True, _KEY_BYTES)
        return after
