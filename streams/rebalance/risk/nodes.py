"""What all nodes of one round cost by the risk that they are overutilized, as planned moves change
them.

Mean and variance are those that the score OverutilizationRisk goes by
(`streams.risk.node_statistics`), and so is the cost (`streams.risk.overutilization`); over
several resources it is their sum, where the one with the largest weight counts whole: a node that
is certain to be hot by it costs 1, however many others are looked at. Arrays are copies: a planned move takes its pod's mean
and variance from the source and adds them to the target, and nothing else is changed.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from schemas.policy import OVERUTILIZATION_RISK, OverutilizationRiskArgs, Policy
from streams.inventory.node import Node
from streams.risk.overutilization import (
    EXCESS_WEIGHT,
    NODE_DEVIATION,
    CostArrays,
    cost_function,
    scale_of,
)
from streams.stage.arrays import FloatArray

_OWN_VARIANCE = NODE_DEVIATION * NODE_DEVIATION

#: Mean and variance by resource, in units and their squares.
Figures = Sequence[tuple[float, float]]


def risk_resources(policy: Policy) -> tuple[str, ...]:
    """Resources that rounds by risk look at; none where the policy does not name them."""
    if not policy.plugins.balances(OVERUTILIZATION_RISK):
        return ()
    return tuple(resource.name for resource in policy.overutilization_risk.resources)


class RiskNodes:
    """Costs of all nodes of one round; positions are those of the nodes given."""

    def __init__(self, args: OverutilizationRiskArgs, nodes: Sequence[Node | None]) -> None:
        """Copy what is known now; a node of which nothing is known costs nothing."""
        resources = [resource.name for resource in args.resources]
        most = max(resource.weight for resource in args.resources)
        self._weights = [resource.weight / most for resource in args.resources]
        self._cost, self._costs = cost_function(EXCESS_WEIGHT), CostArrays(EXCESS_WEIGHT)
        self._scale = scale_of(EXCESS_WEIGHT)
        hot = [resource.hot_share for resource in args.resources]
        rows = [_row(node, resources, hot) for node in nodes]
        shape = (len(nodes), len(resources), 3)
        figures = np.array(rows, dtype=np.float64).reshape(shape).transpose(2, 1, 0)
        self._mean, self._variance, self._per_unit = (
            np.ascontiguousarray(each) for each in figures
        )
        self._square = self._per_unit * self._per_unit
        self.costs: FloatArray = self._weighed(self._mean, self._variance)
        """What each costs now, shape (nodes,)."""

    def _weighed(self, mean: FloatArray, variance: FloatArray) -> FloatArray:
        scale = self._scale
        costs = self._costs.costs(mean * scale.mean, variance * scale.variance)
        found: FloatArray = costs[0] * self._weights[0]
        for index in range(1, len(self._weights)):
            found += costs[index] * self._weights[index]
        return found

    def growth(self, figures: Figures) -> FloatArray:
        """By how much each node's cost would grow with one more pod, shape (nodes,)."""
        mean, variance = np.array(figures).T[:, :, np.newaxis]
        grown = self._per_unit * mean
        grown += self._mean
        spread = self._square * variance
        spread += self._variance
        found = self._weighed(grown, spread)
        found -= self.costs
        return found

    def shares(self, figures: Figures) -> FloatArray:
        """Mean usage of each node with one more pod, less the hot share, weighed; shape (nodes,)."""
        found: FloatArray = np.zeros(self.costs.shape)
        for index, (mean, _) in enumerate(figures):
            found += self._weights[index] * (self._per_unit[index] * mean + self._mean[index])
        return found

    def with_pod(self, position: int, figures: Figures) -> float:
        """What a node would cost with one more pod; the same as `growth` says."""
        return self._changed(position, figures, 1.0)

    def without_pod(self, position: int, figures: Figures) -> float:
        """What a node would cost with one pod less."""
        return self._changed(position, figures, -1.0)

    def _changed(self, position: int, figures: Figures, sign: float) -> float:
        found = 0.0
        for index, (mean, variance) in enumerate(self._after(position, figures, sign)):
            cost = self._cost(mean * self._scale.mean, variance * self._scale.variance)
            found += cost * self._weights[index]
        return found

    def _after(self, position: int, figures: Figures, sign: float) -> list[tuple[float, float]]:
        """Mean less the hot share, and variance of a node with one pod more or less."""
        after = []
        for index, (mean, variance) in enumerate(figures):
            per_unit = float(self._per_unit[index, position])
            square = float(self._square[index, position])
            share = sign * (per_unit * mean) + float(self._mean[index, position])
            spread = sign * (square * variance) + float(self._variance[index, position])
            after.append((share, max(spread, _OWN_VARIANCE)))
        return after

    def add(self, position: int, figures: Figures) -> None:
        """A pod comes to a node by the plan."""
        self._put(position, figures, 1.0)

    def remove(self, position: int, figures: Figures) -> None:
        """A pod leaves a node by the plan."""
        self._put(position, figures, -1.0)

    def _put(self, position: int, figures: Figures, sign: float) -> None:
        self.costs[position] = self._changed(position, figures, sign)
        for index, (mean, variance) in enumerate(self._after(position, figures, sign)):
            self._mean[index, position], self._variance[index, position] = mean, variance


def _row(
    node: Node | None, resources: Sequence[str], hot: Sequence[float]
) -> list[tuple[float, float, Any]]:
    """Mean less the hot share, variance, and one over the capacity, by resource."""
    if node is None or node.statistics is None:
        return [(-share, _OWN_VARIANCE, 0.0) for share in hot]
    row = []
    for name, share, (mean, variance) in zip(
        resources, hot, node.statistics.figures(), strict=True
    ):
        capacity = node.capacity.get(name, 0)
        per_unit = 1.0 / float(capacity) if capacity > 0 else 0.0
        spread = variance * (per_unit * per_unit) + _OWN_VARIANCE
        row.append((mean * per_unit - share, spread, per_unit))
    return row
