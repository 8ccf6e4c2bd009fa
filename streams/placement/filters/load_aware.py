"""Filter LoadAwareScheduling: refuses nodes whose usage exceeds or will exceed a threshold.

The headroom of a node is the largest estimate of a pod with which the node's expected usage, as a rounded
percentage, does not exceed the threshold. So a decision needs one comparison per resource.

The estimate of the pod itself counts only with `compat: koordinator`. Otherwise only the node's usage and
the pods placed on it count, so that an idle node has room for every pod.

All figures exist for two views, prod pods and other pods, because their thresholds and usage differ.
Source: docs/reference/upstream.md A2, A3.
"""

from collections.abc import Iterable
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from schemas.policy import LOAD_AWARE, LoadAwareSchedulingArgs, Policy
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.plugin import Filter, Score
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, FloatArray, IntArray
from streams.usage.estimate import Estimator
from streams.usage.node_usage import ExpectedNodeUsage
from streams.usage.rounding import UNBOUNDED
from streams.usage.vectors import UNKNOWN, Vector

EXPIRED = "node(s) nodeMetric expired"

PROD, OTHER = 0, 1


class Prepared(NamedTuple):
    estimate: Vector
    view: int
    """`PROD` or `OTHER`."""
    exempt: bool = False
    """Whether the filter ignores the pod, as it does for DaemonSets."""


#: Causes of a refusal: the mean usage, another statistic of usage, or an expired metric.
_USAGE, _AGGREGATED, _STALE = 0, 1, 2
#: Less than any estimate.
_NO_ROOM = -UNBOUNDED - 1
#: Less than the spare share of any node whose usage is known.
_LEAST_SPARE = -1_000.0


class _Limits(NamedTuple):
    """Figures of one node for one view."""

    headroom: Vector
    cause: tuple[int, ...]
    """Cause of a refusal by resource: `_USAGE`, `_AGGREGATED` or `_STALE`."""
    spare: float
    """(limit - expected usage) / limit, the least of all resources."""


class LoadAwareFilter(Filter):
    name = LOAD_AWARE
    watches = Change.ALL
    columns = ("_headroom", "_rows", "_cause")

    def __init__(self, estimator: Estimator, *, counts_pod: bool = True) -> None:
        """`counts_pod` tells whether the estimate of the new pod counts."""
        self.estimator = estimator
        self._counts_pod = counts_pod
        self.args: LoadAwareSchedulingArgs = estimator.args
        names, resources = estimator.resources, len(estimator.resources)
        self._reasons = (
            [f"node(s) {name} usage exceed threshold" for name in names],
            [f"node(s) {name} aggregated usage exceed threshold" for name in names],
            [EXPIRED] * resources,
        )
        """Texts by cause and resource."""
        self._zeros: Vector = (0,) * resources
        self._headroom: IntArray = np.zeros((2, resources, 0), dtype=np.int64)
        """Shape (views, resources, nodes)."""
        self._cause: NDArray[np.uint8] = np.zeros((2, resources, 0), dtype=np.uint8)
        """Cause of a refusal, shape (views, resources, nodes)."""
        self._rows: list[tuple[_Limits, _Limits] | None] = []
        self._unlimited = _Limits((UNBOUNDED,) * resources, (_USAGE,) * resources, 1.0)
        self._expired = _Limits((_NO_ROOM,) * resources, (_STALE,) * resources, _LEAST_SPARE)

    @classmethod
    def build(cls, policy: Policy, estimator: Estimator) -> Self:
        return cls(estimator, counts_pod=policy.follows_koordinator)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        limits = self._compute_limits(node.usage, now_ms)
        old = self._rows[row]
        self._rows[row] = limits
        prod, other = limits
        if old is None or old[PROD].cause != prod.cause or old[OTHER].cause != other.cause:
            self._cause[PROD, :, row], self._cause[OTHER, :, row] = prod.cause, other.cause
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
        estimate = self.estimator.estimate(kind).expected if self._counts_pod else self._zeros
        return Prepared(estimate, PROD if kind.prod else OTHER, kind.daemon)

    def mask(self, prepared: Prepared) -> BoolArray | None:
        if prepared.exempt:
            return None
        headroom = self._headroom[prepared.view]
        passes: BoolArray = headroom[0] >= prepared.estimate[0]
        for index in range(1, len(prepared.estimate)):
            passes &= headroom[index] >= prepared.estimate[index]
        return passes

    def can_refuse(self, prepared: Prepared) -> bool:
        return not prepared.exempt

    def reason(self, prepared: Prepared, row: int) -> str | None:
        if prepared.exempt:
            return None
        limits = self._rows[row]
        assert limits is not None  # noqa: S101 - every row is refreshed before it is read
        headroom, cause, _ = limits[prepared.view]
        for index, amount in enumerate(prepared.estimate):
            if amount > headroom[index]:
                return self._reasons[cause[index]][index]
        return None

    def reasons(self, prepared: Prepared, rows: IntArray) -> Iterable[tuple[str, IntArray]]:
        stale: list[IntArray] = []
        for index, amount in enumerate(prepared.estimate):
            exceeds = self._headroom[prepared.view, index, rows] < amount
            refused, rows = rows[exceeds], rows[~exceeds]
            causes = self._cause[prepared.view, index, refused]
            for cause in (_USAGE, _AGGREGATED):
                of_cause = refused[causes == cause]
                if of_cause.size:
                    yield self._reasons[cause][index], of_cause
            stale.append(refused[causes == _STALE])
        expired = np.concatenate(stale)
        if expired.size:
            yield EXPIRED, expired

    @property
    def size(self) -> int:
        return len(self._rows)

    def get_spare(self, prepared: Prepared, row: int) -> float:
        """Return the unused share of the threshold; below 0 if usage exceeds the threshold."""
        limits = self._rows[row]
        assert limits is not None  # noqa: S101 - every row is refreshed before it is read
        return limits[prepared.view].spare

    def _compute_limits(self, usage: ExpectedNodeUsage, now_ms: int) -> tuple[_Limits, _Limits]:
        profile = usage.profile
        usage_max, prod_usage_max = profile.usage_max, profile.prod_usage_max
        if usage.metric is None or (usage_max is None and prod_usage_max is None):
            return self._unlimited, self._unlimited
        if self.args.filter_expired_node_metrics and usage.is_expired(now_ms):
            stale = self._expired
            if self.args.enable_schedule_when_node_metrics_expired:
                stale = self._unlimited
            other = self._unlimited if usage_max is None else stale
            return (other if prod_usage_max is None else stale), other
        if usage.vectors is None or usage.vectors.node is None:
            return self._unlimited, self._unlimited
        other = self._unlimited
        if usage_max is not None:
            used = usage.compute_expected(profile.aggregation, profile.aggregated_ms)
            cause = _USAGE if profile.aggregation is None else _AGGREGATED
            other = _compute_node_limits(usage_max, used, cause)
        if prod_usage_max is None:
            return other, other
        prod = _compute_node_limits(prod_usage_max, usage.compute_expected_prod(), _USAGE)
        return (_combine(prod, other) if self.args.check_both else prod), other


class LeastOverloaded(Score):
    """Prefers the node least above its thresholds. Used when the load filter refuses every node.

    The policy's scores might prefer a node that is already overloaded, because a pod adds little risk there.
    Policies cannot name this score.
    """

    name = LOAD_AWARE
    normalized = True

    def __init__(self, load_filter: LoadAwareFilter) -> None:
        self._filter = load_filter

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        """Do nothing: the filter has the figures."""

    def prepare(self, kind: Kind) -> Prepared:
        return self._filter.prepare(kind)

    def scores(self, prepared: Prepared) -> FloatArray:
        rows = range(self._filter.size)
        return np.array([self._filter.get_spare(prepared, row) for row in rows], dtype=np.float64)

    def score(self, prepared: Prepared, row: int) -> float:
        return self._filter.get_spare(prepared, row)


def _compute_node_limits(usage_max: Vector, used: Vector, cause: int) -> _Limits:
    # A resource without a limit, or with unknown usage, refuses no pod.
    headroom, spare = [], 1.0
    for limit, amount in zip(usage_max, used, strict=True):
        if limit == UNBOUNDED or amount == UNKNOWN:
            headroom.append(UNBOUNDED)
        else:
            headroom.append(limit - amount)
            spare = min(spare, (limit - amount) / max(limit, 1))
    return _Limits(tuple(headroom), (cause,) * len(used), max(spare, _LEAST_SPARE))


def _combine(prod: _Limits, other: _Limits) -> _Limits:
    """Return the smaller headroom of each resource, with its cause."""
    if _STALE in prod.cause or _STALE in other.cause:
        return prod if _STALE in prod.cause else other
    smaller = [
        (prod_room, prod_cause) if prod_room <= room else (room, cause)
        for prod_room, room, prod_cause, cause in zip(
            prod.headroom, other.headroom, prod.cause, other.cause, strict=True
        )
    ]
    headroom, causes = zip(*smaller, strict=True)
    return _Limits(tuple(headroom), tuple(causes), min(prod.spare, other.spare))
