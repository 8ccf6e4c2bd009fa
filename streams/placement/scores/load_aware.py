"""Load-aware score: prefers nodes with the most room left after the pod's expected usage.

The division by a node's capacity becomes a product with a precomputed factor, exact by construction
(see `_SLACK`). Each figure exists twice, for prod pods and for all others, because usage differs.
Source: docs/reference/upstream.md A2, A5.
"""

from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from schemas.policy import LOAD_AWARE, LoadAwareSchedulingArgs, Policy
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.plugin import Score
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, FloatArray
from streams.usage.estimate import Estimator
from streams.usage.node_usage import ExpectedNodeUsage
from streams.usage.vectors import UNKNOWN, Vector

PROD, OTHER = 0, 1

#: Added to (capacity - used) before it is multiplied with 100 / capacity, so that rounding errors
#: cannot push a whole percentage below itself. The product's error is below 2.3e-14 * 2; a figure
#: that is not a whole percentage is at least 1 / capacity away from the next one, of which the
#: slack takes 100 / 256. For capacities up to `_EXACT_MAX` both leave room for the error.
_SLACK = 1 / 256
_EXACT_MAX = 2**42
#: Usage beyond the capacity that a resource of unknown usage counts with: nothing is left of it,
#: whatever the pod.
_NOTHING_LEFT = 2**41
#: More than any percentage that can be left.
_BEYOND = 2**100


class _Prepared(NamedTuple):
    """What the score needs to know of a kind of pod."""

    estimate: Vector
    view: int
    """`PROD` or `OTHER`."""


class LoadAwareScore(Score):
    """Prefers nodes with the most room left after the pod's expected usage."""

    name = LOAD_AWARE
    watches = Change.ALL
    columns = ("_factor", "_free", "_rows", "_wide")

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator
        self.args: LoadAwareSchedulingArgs = estimator.args
        resources = estimator.resources
        self._weights = tuple(self.args.resource_weights.get(name, 0) for name in resources)
        self._dominant = self.args.dominant_resource_weight
        self._weight_sum = sum(self._weights) + self._dominant
        self._views = (PROD, OTHER) if self.args.score_according_prod_usage else (OTHER,)
        self._free: FloatArray = np.zeros((2, len(resources), 0))
        """Capacity less expected usage, plus `_SLACK`; shape (views, resources, nodes)."""
        self._factor: FloatArray = np.zeros((len(resources), 0))
        """100 / capacity; 0 where the node scores 0 whatever the pod; shape (resources, nodes)."""
        self._wide: BoolArray = np.zeros(0, dtype=np.bool_)
        """Nodes with figures below 0 or beyond `_EXACT_MAX`, which are scored one by one."""
        self._rows: list[tuple[Vector, tuple[Vector | None, Vector | None]] | None] = []
        """Capacity, and expected usage per view; no usage: the node scores 0."""
        aggregated = self.args.aggregated
        self._aggregation = (aggregated.score_aggregation_type or None) if aggregated else None
        self._aggregated_ms = aggregated.score_aggregated_duration_ms if aggregated else 0

    @classmethod
    def build(cls, policy: Policy, estimator: Estimator) -> Self:
        return cls(estimator)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        total = node.usage.profile.total
        used = self._expected(node.usage, now_ms)
        known = self._rows[row]
        self._rows[row] = (total, used)
        if (
            known is None
            or known[0] is not total
            or (known[1][OTHER] is None) != (used[OTHER] is None)
        ):
            self._refactor(row, total, scored=used[OTHER] is not None)
        wide = max(total) > _EXACT_MAX
        free = self._free
        for view in self._views:
            vector = used[view]
            if vector is not None:
                if min(vector) < 0:
                    # Pods with negative factors are here; what the column says is not used.
                    wide, vector = True, total
                for index, amount in enumerate(vector):
                    free[view, index, row] = total[index] - amount + _SLACK
                wide = wide or max(vector) > _EXACT_MAX
        self._wide[row] = wide

    def _refactor(self, row: int, total: Vector, *, scored: bool) -> None:
        """Factors change with the capacity only, and with whether the node is scored at all."""
        for index, capacity in enumerate(total):
            factor = 100.0 / capacity if scored and capacity > 0 else 0.0
            self._factor[index, row] = factor

    def prepare(self, kind: Kind) -> _Prepared:
        estimate = self.estimator.of_kind(kind)
        by_prod = kind.prod and self.args.score_according_prod_usage
        return _Prepared(estimate, PROD if by_prod else OTHER)

    def scores(self, prepared: _Prepared) -> NDArray[Any]:
        size = self._wide.size
        if not self._weight_sum:
            return np.zeros(size, dtype=np.int32)
        if min(prepared.estimate) < 0:
            one_by_one = (self.score(prepared, row) for row in range(size))
            return np.fromiter(one_by_one, dtype=np.int32, count=size)
        estimate = np.array(prepared.estimate, dtype=np.float64)
        left = self._free[prepared.view] - estimate[:, np.newaxis]
        left *= self._factor
        np.floor(left, out=left)
        np.maximum(left, 0.0, out=left)
        mean: FloatArray | None = None
        for index, weight in enumerate(self._weights):
            if weight:
                term = left[index] if weight == 1 else left[index] * weight
                mean = term if mean is None else mean + term
        if self._dominant:
            term = left.min(axis=0) * self._dominant
            mean = term if mean is None else mean + term
        assert mean is not None  # noqa: S101 - the weights do not sum to 0
        # Truncated: weights and percentages are small whole numbers, their quotient is exact
        # enough.
        scores = (mean / self._weight_sum).astype(np.int32)
        if self._wide.any():
            for row in np.flatnonzero(self._wide).tolist():
                scores[row] = self.score(prepared, row)
        return scores

    def score(self, prepared: _Prepared, row: int) -> int:
        """The same of one node, in whole numbers.

        Estimates below 0, which annotations can ask for, may leave more than there is: still 100.
        """
        if not self._weight_sum:
            return 0
        known = self._rows[row]
        assert known is not None  # noqa: S101 - every row is refreshed before it is read
        total = known[0]
        used = known[1][prepared.view]
        if used is None:
            return 0
        mean = 0
        least = _BEYOND
        for capacity, taken, estimate, weight in zip(
            total, used, prepared.estimate, self._weights, strict=True
        ):
            # In place and no function: this is asked for every changed node and kind.
            taken += estimate
            left = 0
            if 0 < capacity >= taken:
                left = (capacity - taken) * 100 // capacity
            mean += left * weight
            if left < least:
                least = left
        return min((mean + least * self._dominant) // self._weight_sum, 100)

    def _expected(
        self, usage: ExpectedNodeUsage, now_ms: int
    ) -> tuple[Vector | None, Vector | None]:
        """Expected usage by which prod pods and others are scored; None: the node scores 0."""
        if usage.vectors is None or usage.vectors.node is None or usage.is_expired(now_ms):
            return None, None
        total = usage.profile.total
        other = _use_up_unknown(
            usage.compute_expected(self._aggregation, self._aggregated_ms), total
        )
        if not self.args.score_according_prod_usage:
            return other, other
        return _use_up_unknown(usage.compute_expected_prod(), total), other


def _use_up_unknown(used: Vector, total: Vector) -> Vector:
    """Count a resource of which nothing is known as used up: it scores 0, as a node without a metric."""
    if UNKNOWN not in used:
        return used
    return tuple(
        [
            capacity + _NOTHING_LEFT if amount == UNKNOWN else amount
            for amount, capacity in zip(used, total, strict=True)
        ]
    )
