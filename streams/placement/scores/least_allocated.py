"""Score NodeResourcesFit, strategy LeastAllocated: prefers nodes on which pods request the least.

    resource score = 100 (allocatable - requests with the pod) / allocatable, truncated, at least 0
    node score     = weighted mean of the resource scores, truncated

The mean includes cpu, memory, ephemeral storage, and other resources that the pod requests. Resources that
the node does not have are left out. Containers without a request count as 100m of cpu and 200 MiB of memory,
also those of pods on the node.

Source: docs/reference/upstream.md K1 to K4.
"""

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from schemas.policy import Policy
from schemas.policy.sections.resources_fit import ScoringStrategy
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.plugin import Score
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, FloatArray
from streams.usage.estimate import Estimator

#: Resources that count even if the pod does not request them.
ALWAYS_COUNTED = ("cpu", "memory", "ephemeral-storage")

#: Up to this amount, float64 gives the same integers: 100 times an amount is exact, and a fractional
#: percentage is at least 1 / 2^42 below the next integer, far more than the rounding of a quotient.
#: Nodes with larger amounts are scored one by one with integers.
_EXACT_MAX = 2**42


#: Index, amount and weight of the resources in the mean.
_Requests = tuple[tuple[int, int, int], ...]


class LeastAllocatedScore(Score):
    name = "NodeResourcesFit"
    watches = Change.STATE | Change.PODS
    columns = ("_free", "_capacity", "_node_weights", "_inexact", "_rows")

    def __init__(self, strategy: ScoringStrategy) -> None:
        self._weights = strategy.weights
        resources = len(self._weights)
        self._free: FloatArray = np.zeros((resources, 0))
        """100 times allocatable less requests, shape (resources, nodes)."""
        self._capacity: FloatArray = np.zeros((resources, 0))
        """Allocatable; infinite if it is 0, so that the resource scores 0."""
        self._node_weights: FloatArray = np.zeros((resources, 0))
        """Weight of each resource; 0 if the node does not have the resource."""
        self._inexact: BoolArray = np.zeros(0, dtype=np.bool_)
        """Nodes with amounts beyond `_EXACT_MAX`."""
        self._rows: list[tuple[tuple[int, int], ...] | None] = []
        """Allocatable and free amount by resource, by row."""

    @classmethod
    def build(cls, policy: Policy, estimator: Estimator) -> Self:
        return cls(policy.resources_fit.scoring_strategy)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        figures = []
        is_inexact = False
        for index, (resource, weight) in enumerate(self._weights.items()):
            capacity = max(node.allocatable.get(resource, 0), 0)
            free = capacity - max(node.requested[resource] + node.assumed[resource], 0)
            figures.append((capacity, free))
            is_inexact = is_inexact or capacity > _EXACT_MAX or abs(free) > _EXACT_MAX
            self._free[index, row] = 100 * free
            self._capacity[index, row] = capacity or np.inf
            self._node_weights[index, row] = weight if capacity else 0
        self._inexact[row] = is_inexact
        self._rows[row] = tuple(figures)

    def prepare(self, kind: Kind) -> _Requests:
        requests, assumed = kind.demand.requests, kind.demand.assumed
        needed = []
        for index, (name, weight) in enumerate(self._weights.items()):
            amount = max(requests.get(name, 0) + assumed.get(name, 0), 0)
            if amount or name in ALWAYS_COUNTED:
                needed.append((index, amount, weight))
        return tuple(needed)

    def scores(self, prepared: _Requests) -> NDArray[Any]:
        total: FloatArray = np.zeros(self._inexact.size)
        weights: FloatArray = np.zeros(self._inexact.size)
        for index, amount, weight in prepared:
            percent = self._free[index] - 100.0 * amount
            percent /= self._capacity[index]
            np.floor(percent, out=percent)
            np.maximum(percent, 0.0, out=percent)
            total += percent if weight == 1 else percent * weight
            weights += self._node_weights[index]
        # Dividend and divisor are small integers, so the truncated quotient is exact.
        scores = (total / np.maximum(weights, 1.0)).astype(np.int32)
        if self._inexact.any():
            for row in np.flatnonzero(self._inexact).tolist():
                scores[row] = self.score(prepared, row)
        return scores

    def score(self, prepared: _Requests, row: int) -> int:
        figures = self._rows[row]
        assert figures is not None  # noqa: S101 - every row is refreshed before it is read
        total = weights = 0
        for index, amount, weight in prepared:
            capacity, free = figures[index]
            if capacity:
                if free > amount:
                    total += (free - amount) * 100 // capacity * weight
                weights += weight
        return total // weights if weights else 0
