"""Thresholds as amounts on the nodes of a pool, and the class of each node.

A limit is a percentage of a node's capacity, truncated in Koordinator's order of operations:
int(float(percent) * 0.01 * float(capacity)) (docs/reference/upstream.md B2). By deviation, the
percentage is the pool's mean minus or plus the threshold, clamped to 0..100. The mean is the arithmetic
mean of the percentages of the measured nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from streams.rebalance.columns import Columns
from streams.rebalance.differences import Differences
from streams.rebalance.outcome import (
    BOTH_LOW,
    HIGH,
    LOW,
    NORMAL,
    PROD_HIGH,
    PROD_LOW,
    UNLIMITED,
    Percents,
    PoolThresholds,
)
from streams.stage.arrays import BoolArray, IntArray

#: A limit that every usage exceeds.
_NEVER_LOW = -1
_FULL = 100.0


class PoolNodes:
    """The measured nodes of a pool in one round, as arrays of shape (resources of the pool, nodes)."""

    def __init__(self, columns: Columns, rows: IntArray, resources: Sequence[str]) -> None:
        """`rows` are the rows of the nodes in the columns, in ascending order."""
        self.columns = columns
        self.rows = rows
        self.resources = tuple(resources)
        index = columns.reading_rules.index
        cells = np.ix_(np.array([index[name] for name in resources], dtype=np.int64), rows)
        self.capacity: IntArray = columns.capacity[cells]
        self.usage: IntArray = columns.usage[cells]
        self.prod_usage: IntArray = columns.prod_usage[cells]
        self.pending: IntArray = columns.pending[cells]
        self.known: BoolArray = columns.known[cells]
        """An unknown resource makes a node neither hot nor low."""
        self.usage[~self.known] = 0
        self.schedulable: BoolArray = columns.schedulable[rows]


@dataclass(frozen=True, slots=True)
class UsageLimits:
    """Limits as arrays of the shape of `PoolNodes.usage`."""

    low: IntArray
    high: IntArray
    prod_low: IntArray | None
    prod_high: IntArray | None
    """None, like `prod_low`, without thresholds for prod pods."""


def compute_limits(
    thresholds: PoolThresholds, nodes: PoolNodes, differences: Differences
) -> UsageLimits:
    low, high = _compute_limit_pair(
        thresholds.low, thresholds.high, nodes, nodes.usage, thresholds.deviation, differences
    )
    low[~nodes.known], high[~nodes.known] = _NEVER_LOW, UNLIMITED
    if differences.thresholds_as_given and not thresholds.prod_high:
        return UsageLimits(low, high, None, None)
    prod_low, prod_high = _compute_limit_pair(
        thresholds.prod_low,
        thresholds.prod_high,
        nodes,
        nodes.prod_usage,
        thresholds.deviation,
        differences,
    )
    prod_low[~nodes.known], prod_high[~nodes.known] = _NEVER_LOW, UNLIMITED
    return UsageLimits(low, high, prod_low, prod_high)


def _compute_limit_pair(
    low: Percents,
    high: Percents,
    nodes: PoolNodes,
    usage: IntArray,
    deviation: bool,
    differences: Differences,
) -> tuple[IntArray, IntArray]:
    """Return the low and high limits.

    By loadstream's rules, a resource without a threshold is not limited. By Koordinator's rules, its
    threshold is 0 (B5), and by deviation a low threshold of 0 switches the resource off (B2, B5).
    """
    as_given = differences.thresholds_as_given
    limits = np.full((2, *usage.shape), UNLIMITED, dtype=np.int64)
    means = compute_mean_percentages(nodes, usage, differences) if deviation else None
    for index, name in enumerate(nodes.resources):
        capacity = nodes.capacity[index]
        if deviation and not as_given and low.get(name, 0) == 0:
            limits[:, index] = capacity
            continue
        for limit, percents, sign in zip(limits, (low, high), (-1, 1), strict=True):
            if as_given and name not in percents:
                continue
            percent = float(percents.get(name, 0))
            if means is not None:
                percent = _clamp(means[index] + sign * percent)
            limit[index] = _convert_percent(percent, capacity)
    return limits[0], limits[1]


def _convert_percent(percent: float, capacity: IntArray) -> IntArray:
    return np.minimum(percent * 0.01 * capacity.astype(np.float64), UNLIMITED).astype(np.int64)


def _clamp(percent: float) -> float:
    return min(max(percent, 0.0), _FULL)


def compute_mean_percentages(
    nodes: PoolNodes, usage: IntArray, differences: Differences
) -> list[float]:
    """Return mean usage in percent per resource, in Koordinator's order of operations (B2)."""
    used, capacity = usage.astype(np.float64), nodes.capacity.astype(np.float64)
    is_counted = nodes.known & (nodes.capacity > 0)
    share = np.divide(used, capacity, out=np.zeros_like(used), where=is_counted)
    # Add in the order of the nodes, as Koordinator does. numpy's sum adds in another order.
    sums = np.cumsum(share * 100.0, axis=1)[:, -1:].sum(axis=1)
    node_counts = np.full(len(sums), usage.shape[1])
    if differences.unknown_without_capacity:
        node_counts = is_counted.sum(axis=1)
    means: list[float] = (sums / np.maximum(node_counts, 1)).tolist()
    return means


def convert_to_percentages(
    thresholds: PoolThresholds, nodes: PoolNodes, differences: Differences
) -> PoolThresholds:
    """Return the thresholds as percentages of capacity, also if they are distances from the mean."""
    if not thresholds.deviation:
        return thresholds
    means = compute_mean_percentages(nodes, nodes.usage, differences)
    prod_means = compute_mean_percentages(nodes, nodes.prod_usage, differences)
    is_measured = bool(nodes.rows.size)
    texts = "; ".join(
        (f"{name} {mean:.1f}%" if is_measured else name)
        + f" -{thresholds.low.get(name, 0):g} +{thresholds.high[name]:g}"
        for name, mean in zip(nodes.resources, means, strict=True)
        if name in thresholds.high
    )
    prefix = "" if thresholds.source == "policy" else f"{thresholds.source}; "
    if not is_measured:
        # Without a mean there are no limits.
        source = f"{prefix}distances from the mean, but no node of the pool is measured: {texts}"
        return PoolThresholds(low={}, high={}, prod_low={}, prod_high={}, source=source)

    def add_to_means(
        distances: Percents, low: Percents, means: Sequence[float], sign: int
    ) -> dict[str, float]:
        return {
            name: _FULL
            if not differences.thresholds_as_given and low.get(name, 0) == 0
            else _clamp(mean + sign * distances[name])
            for name, mean in zip(nodes.resources, means, strict=True)
            if name in distances
        }

    low, prod_low = thresholds.low, thresholds.prod_low
    return replace(
        thresholds,
        low=add_to_means(low, low, means, -1),
        high=add_to_means(thresholds.high, low, means, 1),
        prod_low=add_to_means(prod_low, prod_low, prod_means, -1),
        prod_high=add_to_means(thresholds.prod_high, prod_low, prod_means, 1),
        deviation=False,
        source=f"{prefix}mean of the pool's nodes: {texts}",
        without_target=False,
    )


def classify(nodes: PoolNodes, limits: UsageLimits) -> IntArray:
    """Return the class of each node as code of `outcome.CLASSES`, shape (nodes,) (upstream.md L2)."""
    low = (nodes.usage <= limits.low).all(axis=0) & nodes.schedulable
    high = (nodes.usage > limits.high).any(axis=0)
    codes = np.where(low, LOW, np.where(high, HIGH, NORMAL))
    if limits.prod_low is None or limits.prod_high is None:
        return codes
    prod_high = (nodes.prod_usage > limits.prod_high).any(axis=0)
    prod_low = (nodes.prod_usage <= limits.prod_low).all(axis=0) & nodes.schedulable
    by_prod = low | ~high
    codes[by_prod & prod_low] = PROD_LOW
    codes[low & prod_low] = BOTH_LOW
    codes[by_prod & prod_high] = PROD_HIGH
    return codes
