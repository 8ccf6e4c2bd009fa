"""What a pool's nodes use as pods leave them, against the limits of a phase.

A position is a node's place among the pool's nodes with a fresh metric.
"""

from collections.abc import Sequence
from itertools import compress

from streams.inventory.arrays import IntArray
from streams.rebalance.candidates import Phase
from streams.rebalance.inputs import over_text
from streams.rebalance.koordinator.pools import koordinator_limits
from streams.rebalance.pools import Pool, PoolNodes


class PoolUsage:
    """Usage of a pool's nodes in a round, as it changes by moves and by what nodeFit reserves."""

    def __init__(self, pool: Pool, nodes: PoolNodes) -> None:
        self.nodes, self._thresholds = nodes, pool.thresholds
        self.limits = koordinator_limits(pool.thresholds, nodes)
        self._of_node: list[list[int]] = nodes.usage.T.tolist()
        self._of_prod: list[list[int]] = nodes.prod_usage.T.tolist()

    def now(self, phase: Phase) -> list[list[int]]:
        """Amounts by position and resource, as planned moves leave them."""
        return self._of_node if phase == "node" else self._of_prod

    def before(self, phase: Phase) -> IntArray:
        """Amounts before the round, shape (resources, nodes)."""
        return self.nodes.usage if phase == "node" else self.nodes.prod_usage

    def high(self, phase: Phase) -> IntArray:
        """Amounts above which a node is hot, shape (resources, nodes)."""
        limits = self.limits.high if phase == "node" else self.limits.prod_high
        assert limits is not None  # noqa: S101 - Koordinator's prod thresholds are filled in
        return limits

    def over(self, position: int, phase: Phase) -> list[bool]:
        """By resource: whether a node is above its limit."""
        limits = self.high(phase)[:, position].tolist()
        used = self.now(phase)[position]
        return [amount > limit for amount, limit in zip(used, limits, strict=True)]

    def over_text(self, position: int, phase: Phase) -> str:
        """Only of resources that the high thresholds name, also for prod pods (B5.1)."""
        thresholds, nodes = self._thresholds, self.nodes
        named_high = [name in thresholds.high for name in nodes.resources]
        limits = self.high(phase)[:, position].tolist()
        percents = thresholds.high if phase == "node" else thresholds.prod_high
        return over_text(
            phase,
            list(compress(nodes.resources, named_high)),
            list(compress(self.now(phase)[position], named_high)),
            list(compress(limits, named_high)),
            list(compress(nodes.capacity[:, position].tolist(), named_high)),
            [float(percents.get(name, 0)) for name in compress(nodes.resources, named_high)],
        )

    def subtract(self, position: int, phase: Phase, amounts: Sequence[int]) -> None:
        """A pod leaves a node; one that leaves in the node phase stays in the usage by prod pods."""
        for place, amount in enumerate(amounts):
            self._of_node[position][place] -= amount
            if phase == "prod":
                self._of_prod[position][place] -= amount
