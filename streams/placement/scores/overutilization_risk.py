"""Score OverutilizationRisk: prefers nodes where the risk of overutilization grows least.

A node's cost (`streams.risk.overutilization`) depends on the mean and variance of its usage. The expected
mean and variance of a new pod follow from its demand and from the usage of the cluster's pods
(`streams.risk.fleet_usage`). For one resource:

    increase = cost with the pod - cost without it + TIE x (mean usage with the pod / capacity)

The last term decides between nodes without risk. The raw score is 1 / (sum of the increases), at most
1 / `INCREASE_MIN` for one resource. Raw scores are stretched to 0..100. Because of the reciprocal, the best
nodes differ most in score, even if some node would be overloaded.

The increases of one resource depend only on the mean and variance of the pod, so kinds of pods with equal
requests share them. The latest increases are cached, and recomputed for changed nodes.
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
from streams.risk.fleet_usage import FleetUsage, get_prior_usage
from streams.risk.overutilization import (
    MEAN_SCALE,
    NODE_DEVIATION,
    TIE,
    VARIANCE_SCALE,
    CostArrays,
    build_cost_function,
)
from streams.stage.arrays import FloatArray, IntArray
from streams.stage.sized_cache import SizedCache
from streams.usage.estimate import Estimator

#: Smaller increases per resource count as equal. The cost of an idle node increases by this much if the pod
#: uses a thousandth of the node.
INCREASE_MIN = 0.0000001
#: Added to the increase for each resource of unknown usage: more than the cost of a node that is certain
#: to be hot. So nodes with known usage come first, and requests order the other nodes.
UNKNOWN_COST = 2.0

#: Most cached increases, and their most bytes. Older increases would not help: most nodes have changed since
#: their last use, so all increases must be recomputed anyway.
CACHED_MAX, CACHED_BYTES_MAX = 32, 16 * 1024 * 1024
#: With more changed nodes than this share of all, cached increases are recomputed for all nodes.
_RECOMPUTE_SHARE = 1 / 100

_MILLION = 1_000_000
_OWN_VARIANCE = NODE_DEVIATION * NODE_DEVIATION


#: Demand of a pod by resource: millicores, bytes, pieces.
_Demand = tuple[int, ...]
#: Index of a resource, and mean and variance of a pod's usage.
_Key = tuple[int, float, float]


@dataclass(slots=True)
class CachedIncreases:
    values: FloatArray
    """-increase by node, shape (nodes,)."""
    position: int
    """Position in `_changed_rows` up to which the values are current."""


class OverutilizationRiskScore(Score):
    name = OVERUTILIZATION_RISK
    watches = Change.ALL
    normalized = True
    columns = ("_before", "_inputs", "_mean", "_per_unit", "_rows", "_square", "_variance")

    def __init__(self, args: OverutilizationRiskArgs) -> None:
        self._resources = tuple(resource.name for resource in args.resources)
        self._hot = tuple(resource.hot_share for resource in args.resources)
        self._increase_min = INCREASE_MIN * len(args.resources)
        self._fleet: tuple[FleetUsage, ...] = get_prior_usage(args)
        self._last: tuple[_Demand, Sequence[FleetUsage], list[tuple[float, float]]] | None = None
        """The last pod, the fleet's figures, and the pod's expected usage, for calls of `score` row by row."""
        self._cost, self._costs = build_cost_function(), CostArrays()
        self._tie = TIE / MEAN_SCALE
        self._ties: FloatArray = np.array(self._tie)
        """`_tie` with shape (): the fastest operand for numpy."""
        shape = (len(self._resources), 0)
        self._mean: FloatArray = np.zeros(shape)
        """Mean usage / capacity - hot share, scaled; shape (resources, nodes)."""
        self._variance: FloatArray = np.zeros(shape)
        """Variance of usage / capacity^2, scaled."""
        self._before: FloatArray = np.zeros(shape)
        """Cost without the pod - `TIE` x hot share, and - `UNKNOWN_COST` if usage is unknown."""
        self._per_unit: FloatArray = np.zeros(shape)
        """1 / capacity, scaled as means are."""
        self._square: FloatArray = np.zeros(shape)
        """1 / capacity^2, scaled as variances are."""
        self._rows: list[list[tuple[float, float, float, float, float]] | None] = []
        """The five figures above by resource, by row."""
        self._inputs: list[list[tuple[int, float, float, bool]] | None] = []
        """Capacity, mean, variance and whether usage is known, from which `_rows` was computed."""
        self._cache = SizedCache[_Key, CachedIncreases](CACHED_BYTES_MAX, CACHED_MAX)
        self._changed_rows: list[int] = []
        """Rows that have changed since the oldest cached increases; a row may occur twice."""

    @classmethod
    def build(cls, policy: Policy, estimator: Estimator) -> Self:
        return cls(policy.overutilization_risk)

    def relayout(self, source: IntArray) -> None:
        super().relayout(source)
        # An array, because numpy takes twice as long to compare with a number.
        self._negative_increase_max: FloatArray = np.full(source.size, -self._increase_min)
        self._clear_cache()

    def _clear_cache(self) -> None:
        self._cache.clear()
        self._changed_rows.clear()

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        figures = [(0.0, 0.0)] * len(self._resources)
        if node.statistics is not None:
            self._fleet = node.statistics.fleet.figures
            figures = node.statistics.get_figures()
        unknown = {missing.subject for missing in node.missing if not missing.replacement}
        inputs = [
            (node.capacity.get(resource, 0), mean, variance, node.fresh and resource not in unknown)
            for resource, (mean, variance) in zip(self._resources, figures, strict=True)
        ]
        if inputs == self._inputs[row]:
            return  # most metrics change nothing
        self._inputs[row] = inputs
        if len(self._cache):
            self._changed_rows.append(row)
            if len(self._changed_rows) > len(self._rows):
                self._clear_cache()
        rows = self._rows[row] = []
        for index, (capacity, mean, variance, is_known) in enumerate(inputs):
            per_unit = 1.0 / (float(max(capacity, 0)) or 1.0)
            square = per_unit * per_unit
            share = (mean * per_unit - self._hot[index]) * MEAN_SCALE
            spread = (variance * square + _OWN_VARIANCE) * VARIANCE_SCALE
            per_unit, square = per_unit * MEAN_SCALE, square * VARIANCE_SCALE
            # `share` lacks the hot share, to which `TIE` applies too.
            before = self._cost(share, spread) - TIE * self._hot[index]
            if not is_known:
                before -= UNKNOWN_COST
            self._mean[index, row], self._variance[index, row] = share, spread
            self._before[index, row] = before
            self._per_unit[index, row], self._square[index, row] = per_unit, square
            rows.append((share, spread, before, per_unit, square))

    def prepare(self, kind: Kind) -> _Demand:
        return tuple(kind.resolved.get(resource, 0) for resource in self._resources)

    def _compute_expected(self, prepared: _Demand) -> list[tuple[float, float]]:
        """Return mean and variance of an unmeasured pod by resource."""
        cached = self._last
        if cached is None or cached[0] is not prepared or cached[1] is not self._fleet:
            expected = [
                (
                    amount * fleet.usage_ppm / _MILLION,
                    amount * amount * (fleet.variance_ppm + fleet.spread_ppm) / _MILLION,
                )
                for amount, fleet in zip(prepared, self._fleet, strict=True)
            ]
            cached = self._last = prepared, self._fleet, expected
        return cached[2]

    def scores(self, prepared: _Demand) -> FloatArray:
        total, *other_increases = [
            self._compute_negative_increases(index, mean, variance)
            for index, (mean, variance) in enumerate(self._compute_expected(prepared))
        ]
        for increases in other_increases:
            total = total + increases
        # A new array, because `total` may be a cached one.
        total = np.minimum(total, self._negative_increase_max)
        return np.divide(-1.0, total, out=total)

    def score(self, prepared: _Demand, row: int) -> float:
        row_figures = self._rows[row]
        assert row_figures is not None  # noqa: S101 - every row is refreshed before it is read
        increase = 0.0
        for (mean, variance), resource_figures in zip(
            self._compute_expected(prepared), row_figures, strict=True
        ):
            increase += self._compute_increase(resource_figures, mean, variance)
        return 1.0 / max(increase, self._increase_min)

    def _compute_increase(
        self, figures: tuple[float, float, float, float, float], mean: float, variance: float
    ) -> float:
        share, own_variance, before, per_unit, square = figures
        after = per_unit * mean + share
        return self._cost(after, square * variance + own_variance) + self._tie * after - before

    def _compute_negative_increases(self, index: int, mean: float, variance: float) -> FloatArray:
        """Return -increase of one resource for all nodes, shape (nodes,); callers must not change it."""
        key = index, mean, variance
        cached = self._cache.renew(key)
        if cached is not None:
            changed = self._changed_rows[cached.position :]
            if len(changed) <= len(self._rows) * _RECOMPUTE_SHARE:
                for row in changed:
                    figures = self._rows[row]
                    assert figures is not None  # noqa: S101 - the row was refreshed
                    cached.values[row] = -self._compute_increase(figures[index], mean, variance)
                cached.position = len(self._changed_rows)
                return cached.values
        after: FloatArray = self._per_unit[index] * mean
        after += self._mean[index]
        spread: FloatArray = self._square[index] * variance
        spread += self._variance[index]
        cost = self._costs.compute(after, spread)
        after *= self._ties
        after += cost
        np.subtract(self._before[index], after, out=after)
        self._cache.put(key, CachedIncreases(after, len(self._changed_rows)), after.nbytes)
        return after
