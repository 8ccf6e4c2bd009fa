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

_NODE_VARIANCE = NODE_DEVIATION * NODE_DEVIATION

#: Mean and variance by resource, in units and their squares.
PodFigures = Sequence[tuple[float, float]]


def list_risk_resources(policy: Policy) -> tuple[str, ...]:
    """Return the resources of rounds by risk; empty if the policy does not enable them."""
    if not policy.plugins.balances(OVERUTILIZATION_RISK):
        return ()
    return tuple(resource.name for resource in policy.overutilization_risk.resources)


class RiskNodes:
    """Costs of all nodes of one round; positions are those of the given nodes."""

    def __init__(self, args: OverutilizationRiskArgs, nodes: Sequence[Node | None]) -> None:
        resources = [resource.name for resource in args.resources]
        self._cost_function, self._cost_arrays = build_cost_function(), CostArrays()
        hot_shares = [resource.hot_share for resource in args.resources]
        rows = [_compute_moments(node, resources, hot_shares) for node in nodes]
        shape = (len(nodes), len(resources), 3)
        figures = np.array(rows, dtype=np.float64).reshape(shape).transpose(2, 1, 0)
        self._excess, self._variance, self._share_per_unit = (
            np.ascontiguousarray(columns) for columns in figures
        )
        self._square = self._share_per_unit * self._share_per_unit
        self.costs: FloatArray = self._sum_costs(self._excess, self._variance)
        """Shape (nodes,)."""

    def _sum_costs(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        costs = self._cost_arrays.compute(mean * MEAN_SCALE, variance * VARIANCE_SCALE)
        total: FloatArray = costs.sum(axis=0)
        return total

    def compute_growth(self, figures: PodFigures) -> FloatArray:
        """Return the increase of each node's cost with one more pod, shape (nodes,)."""
        mean, variance = np.array(figures).T[:, :, np.newaxis]
        new_mean = self._share_per_unit * mean
        new_mean += self._excess
        new_variance = self._square * variance
        new_variance += self._variance
        growth = self._sum_costs(new_mean, new_variance)
        growth -= self.costs
        return growth

    def compute_excess(self, figures: PodFigures) -> FloatArray:
        """Return mean usage minus hot share with one more pod, summed over resources, shape (nodes,)."""
        shares: FloatArray = np.zeros(self.costs.shape)
        for index, (mean, _) in enumerate(figures):
            shares += self._share_per_unit[index] * mean + self._excess[index]
        return shares

    def compute_cost_with(self, position: int, figures: PodFigures) -> float:
        """Return the cost of a node with one more pod; the increase equals `compute_growth`."""
        return self._compute_cost(position, figures, 1.0)

    def compute_cost_without(self, position: int, figures: PodFigures) -> float:
        return self._compute_cost(position, figures, -1.0)

    def _compute_cost(self, position: int, figures: PodFigures, sign: float) -> float:
        total = 0.0
        for mean, variance in self._add_moments(position, figures, sign):
            total += self._cost_function(mean * MEAN_SCALE, variance * VARIANCE_SCALE)
        return total

    def _add_moments(
        self, position: int, figures: PodFigures, sign: float
    ) -> list[tuple[float, float]]:
        """Return mean minus hot share, and variance, of a node with one pod more or less."""
        moments = []
        for index, (mean, variance) in enumerate(figures):
            per_unit = float(self._share_per_unit[index, position])
            square = float(self._square[index, position])
            share = sign * (per_unit * mean) + float(self._excess[index, position])
            new_variance = sign * (square * variance) + float(self._variance[index, position])
            moments.append((share, max(new_variance, _NODE_VARIANCE)))
        return moments

    def add_pod(self, position: int, figures: PodFigures) -> None:
        self._set_moments(position, figures, 1.0)

    def remove_pod(self, position: int, figures: PodFigures) -> None:
        self._set_moments(position, figures, -1.0)

    def _set_moments(self, position: int, figures: PodFigures, sign: float) -> None:
        self.costs[position] = self._compute_cost(position, figures, sign)
        for index, (mean, variance) in enumerate(self._add_moments(position, figures, sign)):
            self._excess[index, position], self._variance[index, position] = mean, variance


def _compute_moments(
    node: Node | None, resources: Sequence[str], hot_shares: Sequence[float]
) -> list[tuple[float, float, Any]]:
    """Return mean minus hot share, variance, and 1 / capacity by resource; without statistics no usage."""
    if node is None or node.statistics is None:
        return [(-share, _NODE_VARIANCE, 0.0) for share in hot_shares]
    row = []
    for name, share, (mean, variance) in zip(
        resources, hot_shares, node.statistics.get_figures(), strict=True
    ):
        capacity = node.capacity.get(name, 0)
        per_unit = 1.0 / float(capacity) if capacity > 0 else 0.0
        node_variance = variance * (per_unit * per_unit) + _NODE_VARIANCE
        row.append((mean * per_unit - share, node_variance, per_unit))
    return row
