"""Score NodeResourceLimitsAware: spreads the limits of pods, so that fewer bursts coincide on a node.

    raw score = weighted mean over resources of 100 (allocatable - limits with the pod) / allocatable

Raw scores are stretched to 0..100 over the nodes that pass every filter. The policy defines the limit of
pods without one: their request, a quantity, or the node's allocatable.

Source: KEP-217 (docs/reference/upstream.md R1 to R6). Unlike in the KEP, init containers and overhead
count for the pods on the node too.
"""

from typing import Self

import numpy as np

from schemas.policy import NodeResourceLimitsAwareArgs, Policy
from schemas.policy.sections.resource_limits import ALLOCATABLE, REQUEST
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.plugin import Score
from streams.pods.kind import Kind
from streams.stage.arrays import FloatArray
from streams.usage.estimate import Estimator

#: Raw scores are multiples of 1 / 2^24: equal scores must not be stretched to 0 and 100 because of
#: rounding errors.
_STEPS = 2.0**24


#: Limit of a pod by resource; None means the default of each node.
_Limits = tuple[float | None, ...]


class LimitsAwareScore(Score):
    name = "NodeResourceLimitsAware"
    watches = Change.STATE | Change.PODS
    normalized = True
    columns = ("_remaining", "_per_unit", "_default", "_rows")

    def __init__(self, args: NodeResourceLimitsAwareArgs) -> None:
        self._weights = args.weights
        self._weight_sum = sum(self._weights.values())
        self._default_limits = [args.default_limit_of(resource) for resource in self._weights]
        resources = len(self._weights)
        self._remaining: FloatArray = np.zeros((resources, 0))
        """Weighted percentage left before the new pod, shape (resources, nodes)."""
        self._per_unit: FloatArray = np.zeros((resources, 0))
        """Weighted percentage that one unit of limit uses."""
        self._default: FloatArray = np.zeros((resources, 0))
        """Limit of pods without one, if it is not their request."""
        self._rows: list[list[tuple[float, float, float]] | None] = []
        """`_remaining`, `_per_unit` and `_default` by resource, by row."""

    @classmethod
    def build(cls, policy: Policy, estimator: Estimator) -> Self:
        return cls(policy.resource_limits)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        figures = self._rows[row] = []
        for index, (resource, weight) in enumerate(self._weights.items()):
            allocatable = node.allocatable.get(resource, 0)
            configured = self._default_limits[index]
            if configured == REQUEST:
                default, default_limits = 0, node.unlimited[resource]
            else:
                default = allocatable if configured == ALLOCATABLE else configured
                default_limits = (len(node.held) - node.limited[resource]) * default
            limits = node.limits[resource] + default_limits
            remaining = per_unit = 0.0
            if allocatable > 0:
                share = 100.0 * weight / self._weight_sum
                per_unit = share / allocatable
                remaining = (allocatable - limits) * share / allocatable
            self._default[index, row] = default
            self._remaining[index, row] = remaining
            self._per_unit[index, row] = per_unit
            figures.append((remaining, per_unit, float(default)))

    def prepare(self, kind: Kind) -> _Limits:
        demand = kind.demand
        return tuple(
            float(demand.limits.get(resource, 0))
            or (float(demand.requests.get(resource, 0)) if default == REQUEST else None)
            for resource, default in zip(self._weights, self._default_limits, strict=True)
        )

    def scores(self, prepared: _Limits) -> FloatArray:
        raw: FloatArray = np.zeros(self._remaining.shape[1])
        for index, limit in enumerate(prepared):
            amount = self._default[index] if limit is None else limit
            raw += self._remaining[index] - self._per_unit[index] * amount
        raw *= _STEPS
        np.rint(raw, out=raw)
        raw /= _STEPS
        return raw

    def score(self, prepared: _Limits, row: int) -> float:
        figures = self._rows[row]
        assert figures is not None  # noqa: S101 - every row is refreshed before it is read
        raw = 0.0
        for (remaining, per_unit, default), limit in zip(figures, prepared, strict=True):
            raw += remaining - per_unit * (default if limit is None else limit)
        return round(raw * _STEPS) / _STEPS
