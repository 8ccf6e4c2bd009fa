"""Costs of the nodes of one round, which planned moves change.

Mean, variance and cost are those of the score OverutilizationRisk (`streams.risk`). Costs of several
resources are added up.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from schemas.policy import OVERUTILIZATION_RISK, OverutilizationRiskArgs, Policy
from streams.inventory.node import Node
from streams.risk.overutilization import (
    MEAN_SCALE,
    NODE_DEVIATION,
    VARIANCE_SCALE,
    CostArrays,
    build_cost_function,
)
from streams.stage.arrays import FloatArray

_OWN_VARIANCE = NODE_DEVIATION * NODE_DEVIATION

#: Mean and variance by resource, in units and their squares.
Figures = Sequence[tuple[float, float]]


def risk_resources(policy: Policy) -> tuple[str, ...]:
    """Return the resources of rounds by risk; empty if the policy does not enable them."""
    if not policy.plugins.balances(OVERUTILIZATION_RISK):
        return ()
    return tuple(resource.name for resource in policy.overutilization_risk.resources)


class RiskNodes:
    """Costs of all nodes of one round; positions are those of the given nodes."""

    def __init__(self, args: OverutilizationRiskArgs, nodes: Sequence[Node | None]) -> None:
        """A node without statistics costs nothing."""
        resources = [resource.name for resource in args.resources]
        self._cost, self._costs = build_cost_function(), CostArrays()
        hot = [resource.hot_share for resource in args.resources]
        rows = [_row(node, resources, hot) for node in nodes]
        shape = (len(nodes), len(resources), 3)
        figures = np.array(rows, dtype=np.float64).reshape(shape).transpose(2, 1, 0)
        self._mean, self._variance, self._per_unit = (
            np.ascontiguousarray(columns) for columns in figures
        )
        self._square = self._per_unit * self._per_unit
        self.costs: FloatArray = self._sum_costs(self._mean, self._variance)
        """Shape (nodes,)."""

    def _sum_costs(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        costs = self._costs.compute(mean * MEAN_SCALE, variance * VARIANCE_SCALE)
        total: FloatArray = costs.sum(axis=0)
        return total

    def compute_growth(self, figures: Figures) -> FloatArray:
        """Return the increase of each node's cost with one more pod, shape (nodes,)."""
        mean, variance = np.array(figures).T[:, :, np.newaxis]
        grown = self._per_unit * mean
        grown += self._mean
        spread = self._square * variance
        spread += self._variance
        growth = self._sum_costs(grown, spread)
        growth -= self.costs
        return growth

    def compute_excess(self, figures: Figures) -> FloatArray:
        """Return mean usage minus hot share with one more pod, summed over resources, shape (nodes,)."""
        shares: FloatArray = np.zeros(self.costs.shape)
        for index, (mean, _) in enumerate(figures):
            shares += self._per_unit[index] * mean + self._mean[index]
        return shares

    def cost_with_pod(self, position: int, figures: Figures) -> float:
        """Return the cost of a node with one more pod; `compute_growth` is equal to the increase."""
        return self._changed(position, figures, 1.0)

    def cost_without_pod(self, position: int, figures: Figures) -> float:
        return self._changed(position, figures, -1.0)

    def _changed(self, position: int, figures: Figures, sign: float) -> float:
        total = 0.0
        for mean, variance in self._after(position, figures, sign):
            total += self._cost(mean * MEAN_SCALE, variance * VARIANCE_SCALE)
        return total

    def _after(self, position: int, figures: Figures, sign: float) -> list[tuple[float, float]]:
        """Return mean less hot share, and variance, of a node with one pod more or less."""
        after = []
        for index, (mean, variance) in enumerate(figures):
            per_unit = float(self._per_unit[index, position])
            square = float(self._square[index, position])
            share = sign * (per_unit * mean) + float(self._mean[index, position])
            spread = sign * (square * variance) + float(self._variance[index, position])
            after.append((share, max(spread, _OWN_VARIANCE)))
        return after

    def add(self, position: int, figures: Figures) -> None:
        self._put(position, figures, 1.0)

    def remove(self, position: int, figures: Figures) -> None:
        self._put(position, figures, -1.0)

    def _put(self, position: int, figures: Figures, sign: float) -> None:
        self.costs[position] = self._changed(position, figures, sign)
        for index, (mean, variance) in enumerate(self._after(position, figures, sign)):
            self._mean[index, position], self._variance[index, position] = mean, variance


def _row(
    node: Node | None, resources: Sequence[str], hot: Sequence[float]
) -> list[tuple[float, float, Any]]:
    """Return mean less hot share, variance, and 1 / capacity, by resource."""
    if node is None or node.statistics is None:
        return [(-share, _OWN_VARIANCE, 0.0) for share in hot]
    row = []
    for name, share, (mean, variance) in zip(
        resources, hot, node.statistics.get_figures(), strict=True
    ):
        capacity = node.capacity.get(name, 0)
        per_unit = 1.0 / float(capacity) if capacity > 0 else 0.0
        spread = variance * (per_unit * per_unit) + _OWN_VARIANCE
        row.append((mean * per_unit - share, spread, per_unit))
    return row
