"""Load-aware filter and score: keep pods off nodes that are, or are expected to become, too busy.

The filter's question, "does the expected usage with this pod, as a rounded percentage, exceed the
threshold?", is turned around once per node: how much may a pod be expected to use here at the most
(`headroom`)? A decision is then one comparison a resource. The score's division becomes a product
with a precomputed factor, exact by construction (see `_SLACK`).

Each figure exists twice, for prod pods and for all others, because thresholds and usage differ.
Source: docs/upstream.md A2, A3, A5.
"""

from collections.abc import Iterable
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from schemas.policy import LOAD_AWARE, LoadAwareSchedulingArgs, Policy
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.plugins.base import Filter, Score
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, FloatArray, IntArray
from streams.usage.estimate import Estimator
from streams.usage.node_usage import ExpectedNodeUsage
from streams.usage.rounding import UNBOUNDED
from streams.usage.vectors import Vector

EXPIRED = "node(s) nodeMetric expired"

PROD, OTHER = 0, 1

#: Added to (capacity - used) before it is multiplied with 100 / capacity, so that rounding errors
#: cannot push a whole percentage below itself. The product's error is below 2.3e-14 * 2; a figure
#: that is not a whole percentage is at least 1 / capacity away from the next one, of which the
#: slack takes 100 / 256. For capacities up to `_EXACT_MAX` both leave room for the error.
_SLACK = 1 / 256
_EXACT_MAX = 2**42
#: More than any percentage that can be left.
_BEYOND = 2**100


class Prepared(NamedTuple):
    """What the plugins need to know of a kind of pod."""

    estimate: Vector
    view: int
    """`PROD` or `OTHER`."""
    exempt: bool = False
    """DaemonSet pods pass every load filter."""


#: What a node is refused for: its average usage, another statistic, or an expired metric.
_USAGE, _AGGREGATED, _STALE = 0, 1, 2
#: Less than any estimate.
_NO_ROOM = -UNBOUNDED - 1


class _Limits(NamedTuple):
    """One node's filter figures for one view."""

    headroom: Vector
    why: tuple[int, ...]
    """What a refusal is about, by resource: `_USAGE`, `_AGGREGATED` or `_STALE`."""


class LoadAwareFilter(Filter):
    """Refuses nodes whose expected usage with the pod would exceed a threshold."""

    name = LOAD_AWARE
    watches = Change.ALL
    columns = ("_headroom", "_rows", "_why")

    def __init__(self, estimator: Estimator) -> None:
        self.estimator = estimator
        self.args: LoadAwareSchedulingArgs = estimator.args
        self._reasons = (
            *(
                tuple(
                    f"node(s) {resource} {statistic}usage exceed threshold"
                    for resource in estimator.resources
                )
                for statistic in ("", "aggregated ")
            ),
            (EXPIRED,) * len(estimator.resources),
        )
        """By what a refusal is about, and by resource."""
        resources = len(estimator.resources)
        self._headroom: IntArray = np.zeros((2, resources, 0), dtype=np.int64)
        """Largest estimate that still fits, shape (views, resources, nodes)."""
        self._why: NDArray[np.uint8] = np.zeros((2, resources, 0), dtype=np.uint8)
        """What a refusal is about, shape (views, resources, nodes)."""
        self._usage, self._aggregated = (_USAGE,) * resources, (_AGGREGATED,) * resources
        self._rows: list[tuple[_Limits, _Limits] | None] = []
        self._open = _Limits((UNBOUNDED,) * resources, self._usage)
        self._closed = _Limits((_NO_ROOM,) * resources, (_STALE,) * resources)

    @classmethod
    def build(cls, policy: Policy, estimator: Estimator) -> Self:
        """Judge by the policy's load-aware arguments."""
        return cls(estimator)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        """Work out how much a pod may be expected to use on this node."""
        limits = self._limits(node.usage, now_ms)
        known = self._rows[row]
        self._rows[row] = limits
        prod, other = limits
        if known is None or known[PROD].why != prod.why or known[OTHER].why != other.why:
            self._why[PROD, :, row], self._why[OTHER, :, row] = prod.why, other.why
        column = self._headroom
        try:
            for index, amount in enumerate(other.headroom):
                column[OTHER, index, row] = amount
            for index, amount in enumerate(prod.headroom):
                column[PROD, index, row] = amount
        except OverflowError:
            for view in (PROD, OTHER):
                for index, amount in enumerate(limits[view].headroom):
                    column[view, index, row] = min(max(amount, _NO_ROOM), UNBOUNDED)

    def prepare(self, kind: Kind) -> Prepared:
        """Estimate the pod."""
        estimate = self.estimator.of_kind(kind)
        return Prepared(estimate, PROD if kind.prod else OTHER, kind.daemon)

    def mask(self, prepared: Prepared) -> BoolArray | None:
        """Nodes on which the estimate fits under every threshold."""
        if prepared.exempt:
            return None
        headroom = self._headroom[prepared.view]
        passes: BoolArray = headroom[0] >= prepared.estimate[0]
        for index in range(1, len(prepared.estimate)):
            passes &= headroom[index] >= prepared.estimate[index]
        return passes

    def concerns(self, prepared: Prepared) -> bool:
        """All but daemons."""
        return not prepared.exempt

    def reason(self, prepared: Prepared, row: int) -> str | None:
        """The first resource, in the order of names, that would exceed its threshold."""
        if prepared.exempt:
            return None
        limits = self._rows[row]
        assert limits is not None  # noqa: S101 - every row is refreshed before it is read
        headroom, why = limits[prepared.view]
        for index, amount in enumerate(prepared.estimate):
            if amount > headroom[index]:
                return self._reasons[why[index]][index]
        return None

    def reasons(self, prepared: Prepared, rows: IntArray) -> Iterable[tuple[str, IntArray]]:
        """Resource by resource: the nodes that would exceed its threshold and none of those before."""
        stale: list[IntArray] = []
        for index, amount in enumerate(prepared.estimate):
            over = self._headroom[prepared.view, index, rows] < amount
            found, rows = rows[over], rows[~over]
            abouts = self._why[prepared.view, index, found]
            for why in (_USAGE, _AGGREGATED):
                of = found[abouts == why]
                if of.size:
                    yield self._reasons[why][index], of
            stale.append(found[abouts == _STALE])
        expired = np.concatenate(stale)
        if expired.size:
            yield EXPIRED, expired

    def _limits(self, usage: ExpectedNodeUsage, now_ms: int) -> tuple[_Limits, _Limits]:
        """Filter figures of one node for prod pods and for others."""
        profile = usage.profile
        most, most_prod = profile.most, profile.most_prod
        if usage.metric is None or (most is None and most_prod is None):
            return self._open, self._open
        if self.args.filter_expired_node_metrics and usage.is_expired(now_ms):
            stale = self._closed
            if self.args.enable_schedule_when_node_metrics_expired:
                stale = self._open
            other = self._open if most is None else stale
            return (other if most_prod is None else stale), other
        if usage.vectors is None or usage.vectors.node is None:
            return self._open, self._open
        other = self._open
        if most is not None:
            used = usage.compute_expected(profile.aggregation, profile.aggregated_ms)
            about = self._usage if profile.aggregation is None else self._aggregated
            other = _Limits(_room(most, used), about)
        if most_prod is None:
            return other, other
        prod = _Limits(_room(most_prod, usage.compute_expected_prod()), self._usage)
        return (_both(prod, other) if self.args.check_both else prod), other


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
        """Judge by the policy's load-aware arguments."""
        return cls(estimator)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        """Work out capacity and expected usage."""
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

    def prepare(self, kind: Kind) -> Prepared:
        """Estimate the pod."""
        estimate = self.estimator.of_kind(kind)
        by_prod = kind.prod and self.args.score_according_prod_usage
        return Prepared(estimate, PROD if by_prod else OTHER)

    def scores(self, prepared: Prepared) -> NDArray[Any]:
        """Weighted mean of the percentages that would be left, with two truncations."""
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

    def score(self, prepared: Prepared, row: int) -> int:
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
        other = usage.compute_expected(self._aggregation, self._aggregated_ms)
        return (
            usage.compute_expected_prod() if self.args.score_according_prod_usage else other
        ), other


def _room(most: Vector, used: Vector) -> Vector:
    """What may still be used; without limit where there is none."""
    pairs = zip(most, used, strict=True)
    return tuple([limit if limit == UNBOUNDED else limit - amount for limit, amount in pairs])


def _both(one: _Limits, other: _Limits) -> _Limits:
    """What fits under both; the reason of each resource is that of the tighter one."""
    if _STALE in one.why or _STALE in other.why:
        return one if _STALE in one.why else other
    tighter = [
        (a, why) if a <= b else (b, why_not)
        for a, b, why, why_not in zip(one.headroom, other.headroom, one.why, other.why, strict=True)
    ]
    headroom, whys = zip(*tighter, strict=True)
    return _Limits(tuple(headroom), tuple(whys))
