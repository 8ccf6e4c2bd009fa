"""Score NodeResourcesBalancedAllocation: prefers nodes whose resources the pod balances.

    evenness = 100 (1 - standard deviation of requested / allocatable over the resources), truncated
    score    = 50 + (50 + evenness with the pod - evenness without it) / 2

So the score is 75 if the evenness does not change, above 75 if it grows, and below 75 if it falls. A pod
that requests none of the resources scores 0 on all nodes. Containers without a request count as 0.
Resources count as in `least_allocated`.

`scores` and `score` do the same float64 operations in the same order, as kube-scheduler does for amounts
up to 2^53. For larger amounts, kube-scheduler adds requests as integers first.

Source: docs/reference/upstream.md K1, K5 to K7.
"""

import math
from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from schemas.policy import Policy
from schemas.policy.sections.resources_fit import NodeResourcesBalancedAllocationArgs
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.plugin import Score
from streams.placement.scores.least_allocated import ALWAYS_COUNTED
from streams.pods.kind import Kind
from streams.stage.arrays import FloatArray, IntArray
from streams.usage.estimate import Estimator

#: Index and amount of the resources that count; empty if the pod requests none of them.
_Requests = tuple[tuple[int, float], ...]


class BalancedAllocationScore(Score):
    name = "NodeResourcesBalancedAllocation"
    watches = Change.STATE | Change.PODS
    columns = ("_requested", "_capacity", "_before", "_half", "_rows")

    def __init__(self, args: NodeResourcesBalancedAllocationArgs) -> None:
        self._resources = tuple(resource.name for resource in args.resources)
        self._always = [i for i, name in enumerate(self._resources) if name in ALWAYS_COUNTED]
        """Indices of `ALWAYS_COUNTED`."""
        self._requested: FloatArray = np.zeros((len(self._resources), 0))
        """Shape (resources, nodes)."""
        self._capacity: FloatArray = np.zeros((len(self._resources), 0))
        """Allocatable, infinite if it is 0; shape (resources, nodes)."""
        self._before: IntArray = np.zeros(0, dtype=np.int64)
        """Evenness of the resources that always count, without the pod; shape (nodes,)."""
        self._half: FloatArray = np.zeros(0)
        """0.5 for nodes with exactly two of these resources, else 0."""
        self._rows: list[list[tuple[float, float]] | None] = []
        """Requested and allocatable by resource, by row."""

    @classmethod
    def build(cls, policy: Policy, estimator: Estimator) -> Self:
        return cls(policy.balanced_allocation)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        figures = []
        for index, resource in enumerate(self._resources):
            requested = float(max(node.requested[resource], 0))
            capacity = float(max(node.allocatable.get(resource, 0), 0))
            figures.append((requested, capacity))
            self._requested[index, row] = requested
            self._capacity[index, row] = capacity or np.inf
        shares = [_compute_share(*figures[index]) for index in self._always if figures[index][1]]
        self._before[row] = _compute_evenness(shares)
        self._half[row] = 0.5 if len(shares) == 2 else 0.0
        self._rows[row] = figures

    def prepare(self, kind: Kind) -> _Requests:
        amounts = [max(kind.demand.requests.get(name, 0), 0) for name in self._resources]
        if not any(amounts):
            return ()
        return tuple(
            (index, float(amount))
            for index, (name, amount) in enumerate(zip(self._resources, amounts, strict=True))
            if amount or name in ALWAYS_COUNTED
        )

    def scores(self, prepared: _Requests) -> NDArray[Any]:
        if not prepared:
            return np.zeros(self._before.size, dtype=np.int32)
        indices = [index for index, _ in prepared]
        only_always = indices == self._always
        if only_always and len(indices) == 2:
            after = self._compute_evenness_of_two(prepared)
        else:
            amounts = np.array([[amount] for _, amount in prepared])
            after = _compute_evenness_of_nodes(
                self._requested[indices] + amounts, self._capacity[indices]
            )
        before = self._before
        if not only_always:
            before = _compute_evenness_of_nodes(self._requested[indices], self._capacity[indices])
        # The sum is not negative, so a shift equals Go's division.
        return (50 + (50 + after - before >> 1)).astype(np.int32)

    def score(self, prepared: _Requests, row: int) -> int:
        if not prepared:
            return 0
        figures = self._rows[row]
        assert figures is not None  # noqa: S101 - every row is refreshed before it is read
        before, after = [], []
        for index, amount in prepared:
            requested, capacity = figures[index]
            if capacity:
                before.append(_compute_share(requested, capacity))
                after.append(_compute_share(requested + amount, capacity))
        return 50 + (50 + _compute_evenness(after) - _compute_evenness(before)) // 2

    def _compute_evenness_of_two(self, prepared: _Requests) -> IntArray:
        """Return `_compute_evenness` of all nodes with the pod, by the two resources that always count."""
        shares, other_shares = (
            np.minimum((self._requested[index] + amount) / self._capacity[index], 1.0)
            for index, amount in prepared
        )
        difference: FloatArray = np.abs(shares - other_shares)
        difference *= self._half
        return ((1 - difference) * 100).astype(np.int64)


def _compute_share(requested: float, capacity: float) -> float:
    return min(requested / capacity, 1.0)


def _compute_evenness(shares: Sequence[float]) -> int:
    deviation = 0.0
    if len(shares) == 2:
        deviation = abs((shares[0] - shares[1]) / 2)
    elif len(shares) > 2:
        total = squares = 0.0
        for share in shares:
            total += share
        mean = total / len(shares)
        for share in shares:
            squares += (share - mean) * (share - mean)
        deviation = math.sqrt(squares / len(shares))
    return int((1 - deviation) * 100)


def _compute_evenness_of_nodes(requested: FloatArray, capacity: FloatArray) -> IntArray:
    """Return `_compute_evenness` of all nodes; amounts have shape (resources, nodes)."""
    has_resource = np.isfinite(capacity)
    shares = np.minimum(requested / capacity, 1.0)
    count = np.count_nonzero(has_resource, axis=0)
    largest = np.max(shares, axis=0, initial=0.0, where=has_resource)
    smallest = np.min(shares, axis=0, initial=1.0, where=has_resource)
    deviation: FloatArray = np.where(count == 2, (largest - smallest) / 2, 0.0)
    if len(capacity) > 2:
        total: FloatArray = np.zeros(count.size)
        squares: FloatArray = np.zeros(count.size)
        for share in shares:
            total += share
        mean = total / np.maximum(count, 1)
        for share, counts in zip(shares, has_resource, strict=True):
            squares += np.where(counts, (share - mean) * (share - mean), 0.0)
        spread = np.sqrt(squares / np.maximum(count, 1))
        deviation = np.where(count > 2, spread, deviation)
    return ((1 - deviation) * 100).astype(np.int64)
