"""Score LoadAwareScheduling: prefers nodes with the largest free share of capacity.

    resource score = 100 (capacity - expected usage with the pod) / capacity, truncated, at least 0
    node score     = weighted mean of the resource scores, truncated

A node without a fresh metric scores 0, and so does a resource of unknown usage. Figures exist for two
views, prod pods and other pods, because the usage that counts for them differs. Instead of dividing by
capacity, `scores` multiplies by a precomputed factor; the result is exact (see `_SLACK`).
Source: docs/reference/upstream.md A2, A5.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from schemas.policy import LOAD_AWARE, LoadAwareSchedulingArgs, Policy
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.filters.load_aware import OTHER, PROD
from streams.placement.plugin import Score
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, FloatArray
from streams.usage.estimate import Estimator
from streams.usage.node_usage import ExpectedNodeUsage
from streams.usage.vectors import UNKNOWN, Vector

#: Added to (capacity - used) before the product with 100 / capacity, so that rounding errors cannot
#: push an integer percentage below itself. The error of the product is below 4.6e-14. A fractional
#: percentage is at least 100 / capacity below the next integer, and the slack uses 1 / 256 of that.
_SLACK = 1 / 256
_EXACT_MAX = 2**42
#: Unknown usage counts as this much above the capacity, so that the resource scores 0 for any pod.
_EXCESS_IF_UNKNOWN = 2**41
#: Above any free percentage.
_PERCENT_UNBOUNDED = 2**100


class _Prepared(NamedTuple):
    estimate: Vector
    view: int
    """`PROD` or `OTHER`."""


class LoadAwareScore(Score):
    name = LOAD_AWARE
    watches = Change.ALL
    columns = ("_factor", "_free", "_rows", "_inexact", "_zeros")

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator
        self.args: LoadAwareSchedulingArgs = estimator.args
        resources = estimator.resources
        self._weights = tuple(self.args.resource_weights.get(name, 0) for name in resources)
        self._dominant = self.args.dominant_resource_weight
        self._weight_sum = sum(self._weights) + self._dominant
        self._views = (PROD, OTHER) if self.args.score_according_prod_usage else (OTHER,)
        self._free: FloatArray = np.zeros((2, len(resources), 0))
        """Capacity - expected usage + `_SLACK`, shape (views, resources, nodes)."""
        self._factor: FloatArray = np.zeros((len(resources), 0))
        """100 / capacity; 0 if the node scores 0 for any pod; shape (resources, nodes)."""
        # An array, because numpy takes twice as long to compare with a number.
        self._zeros: FloatArray = np.zeros((len(resources), 0))
        self._inexact: BoolArray = np.zeros(0, dtype=np.bool_)
        """Nodes with figures below 0 or above `_EXACT_MAX`, which are scored one by one."""
        self._rows: list[tuple[Vector, tuple[Vector | None, Vector | None]] | None] = []
        """Capacity, and expected usage per view, by row; None if the node scores 0."""
        aggregated = self.args.aggregated
        self._aggregation = (aggregated.score_aggregation_type or None) if aggregated else None
        self._aggregated_ms = aggregated.score_aggregated_duration_ms if aggregated else 0

    @classmethod
    def build(cls, policy: Policy, estimator: Estimator) -> Self:
        return cls(estimator)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        total = node.usage.profile.total
        used = self._compute_expected(node.usage, now_ms)
        old_figures = self._rows[row]
        self._rows[row] = (total, used)
        if (
            old_figures is None
            or old_figures[0] is not total
            or (old_figures[1][OTHER] is None) != (used[OTHER] is None)
        ):
            is_scored = used[OTHER] is not None
            for index, capacity in enumerate(total):
                self._factor[index, row] = 100.0 / capacity if is_scored and capacity > 0 else 0.0
        is_inexact = max(total) > _EXACT_MAX
        free = self._free
        for view in self._views:
            vector = used[view]
            if vector is not None:
                if min(vector) < 0:
                    # Scaling factors of pods may be negative. `scores` does not use this row's columns.
                    is_inexact, vector = True, total
                for index, amount in enumerate(vector):
                    free[view, index, row] = total[index] - amount + _SLACK
                is_inexact = is_inexact or max(vector) > _EXACT_MAX
        self._inexact[row] = is_inexact

    def prepare(self, kind: Kind) -> _Prepared:
        estimate = self.estimator.estimate(kind).expected
        by_prod = kind.prod and self.args.score_according_prod_usage
        return _Prepared(estimate, PROD if by_prod else OTHER)

    def scores(self, prepared: _Prepared) -> NDArray[Any]:
        size = self._inexact.size
        if not self._weight_sum:
            return np.zeros(size, dtype=np.int32)
        if min(prepared.estimate) < 0:
            row_scores = (self.score(prepared, row) for row in range(size))
            return np.fromiter(row_scores, dtype=np.int32, count=size)
        estimate = np.array(prepared.estimate, dtype=np.float64)
        percent = self._free[prepared.view] - estimate[:, np.newaxis]
        percent *= self._factor
        np.floor(percent, out=percent)
        np.maximum(percent, self._zeros, out=percent)
        mean: FloatArray | None = None
        for index, weight in enumerate(self._weights):
            if weight:
                term = percent[index] if weight == 1 else percent[index] * weight
                mean = term if mean is None else mean + term
        if self._dominant:
            term = percent.min(axis=0) * self._dominant
            mean = term if mean is None else mean + term
        assert mean is not None  # noqa: S101 - the weights do not sum to 0
        # Weights and percentages are small integers, so the truncated quotient is exact.
        scores = (mean / self._weight_sum).astype(np.int32)
        if self._inexact.any():
            for row in np.flatnonzero(self._inexact).tolist():
                scores[row] = self.score(prepared, row)
        return scores

    def score(self, prepared: _Prepared, row: int) -> int:
        if not self._weight_sum:
            return 0
        row_figures = self._rows[row]
        assert row_figures is not None  # noqa: S101 - every row is refreshed before it is read
        total = row_figures[0]
        used = row_figures[1][prepared.view]
        if used is None:
            return 0
        mean = 0
        least = _PERCENT_UNBOUNDED
        for capacity, amount, estimate, weight in zip(
            total, used, prepared.estimate, self._weights, strict=True
        ):
            amount += estimate
            percent = 0
            if 0 < capacity >= amount:
                percent = (capacity - amount) * 100 // capacity
            mean += percent * weight
            if percent < least:
                least = percent
        # Annotations may make estimates negative, so that more than 100 % would be left.
        return min((mean + least * self._dominant) // self._weight_sum, 100)

    def _compute_expected(
        self, usage: ExpectedNodeUsage, now_ms: int
    ) -> tuple[Vector | None, Vector | None]:
        """Return the expected usage for prod pods and for others; None if the node scores 0."""
        if usage.vectors is None or usage.vectors.node is None or usage.is_expired(now_ms):
            return None, None
        total = usage.profile.total
        other = _replace_unknown(
            usage.compute_expected(self._aggregation, self._aggregated_ms), total
        )
        if not self.args.score_according_prod_usage:
            return other, other
        return _replace_unknown(usage.compute_expected_prod(), total), other


def _replace_unknown(used: Vector, total: Vector) -> Vector:
    if UNKNOWN not in used:
        return used
    return tuple(
        [
            capacity + _EXCESS_IF_UNKNOWN if amount == UNKNOWN else amount
            for amount, capacity in zip(used, total, strict=True)
        ]
    )
