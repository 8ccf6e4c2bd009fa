"""Pools of nodes by a policy: thresholds, weights, and limits in amounts.

loadstream gives a node to the first pool that selects it; Koordinator lets every pool see all the
nodes that it selects (`streams.rebalance.koordinator.rules` says which of them it leaves out).

A limit is a percentage of a node's capacity, truncated in Koordinator's order of operations:
int(float(percent) * 0.01 * float(capacity)) (docs/upstream.md B2.2). By deviation the percentage is
the pool's mean less or plus the threshold, within 0 and 100; the mean is the plain mean of the
percentages of the measured nodes.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from schemas.policy import NodePool, Policy
from schemas.policy.lownodeload import AnomalyCondition
from streams.inventory.arrays import BoolArray, FloatArray, IntArray
from streams.rebalance.columns import Columns
from streams.rebalance.node_arrays import TOTAL_MAX, Universe
from streams.rebalance.outcome import (
    BOTH_LOW,
    HIGH,
    LOW,
    NORMAL,
    PROD_HIGH,
    PROD_LOW,
    Percents,
    Thresholds,
)

#: No usage exceeds it.
UNLIMITED = 4 * TOTAL_MAX


@dataclass(frozen=True, slots=True)
class Pool:
    """What one pool's nodes are judged by."""

    index: int
    """Position among the pools: its selector is the one of that position in the columns."""
    name: str
    thresholds: Thresholds
    weights: dict[str, int]
    """Complete for the resources of the thresholds."""
    condition: AnomalyCondition

    @property
    def resources(self) -> tuple[str, ...]:
        """Resources that have a threshold, sorted."""
        names = {*self.thresholds.high, *self.thresholds.low, *self.thresholds.prod_high}
        return tuple(sorted(names | {*self.thresholds.prod_low}))


def loadstream_pools(policy: Policy) -> tuple[Pool, ...]:
    """The pools of a policy in the order in which nodes are given to them."""
    pools = []
    for index, given in enumerate(policy.rebalance.pools("loadstream")):
        thresholds = configured(given)
        named = {**thresholds.high, **thresholds.prod_high}
        pools.append(
            Pool(
                index=index,
                name=given.name,
                thresholds=thresholds,
                weights={**dict.fromkeys(sorted(named), 1), **(given.resource_weights or {})},
                condition=given.anomaly_condition or AnomalyCondition(),
            )
        )
    return tuple(pools)


def configured(pool: NodePool) -> Thresholds:
    """The thresholds as the policy says them; the maps are copies."""
    return Thresholds(
        low=dict(pool.low_thresholds or {}),
        high=dict(pool.high_thresholds or {}),
        prod_low=dict(pool.prod_low_thresholds or {}),
        prod_high=dict(pool.prod_high_thresholds or {}),
        deviation=pool.use_deviation_thresholds,
    )


class PoolNodes:
    """The measured nodes of a pool in one round, as arrays [resources of the pool × nodes]."""

    def __init__(
        self, columns: Columns, rows: IntArray, resources: Sequence[str], universe: Universe
    ) -> None:
        """Look at some nodes.

        Args:
            columns: all nodes.
            rows: rows of the measured nodes of the pool, ascending.
            resources: resources that have a threshold.
            universe: what the columns' resources are.
        """
        self.rows = rows
        self.resources = tuple(resources)
        self.which: IntArray = np.array(
            [universe.index[name] for name in resources], dtype=np.int64
        )
        """Positions of the pool's resources in the columns."""
        at = np.ix_(self.which, rows)
        self.capacity: IntArray = columns.capacity[at]
        self.usage: IntArray = columns.usage[at]
        self.prod_usage: IntArray = columns.prod_usage[at]
        self.pending: IntArray = columns.pending[at]
        self.schedulable: BoolArray = columns.schedulable[rows]

    def percentages(self, usage: IntArray) -> FloatArray:
        """Usage in percent of the capacity; 0 where there is none."""
        capacity = self.capacity.astype(np.float64)
        share = 100 * usage.astype(np.float64)
        return np.divide(share, capacity, out=np.zeros_like(share), where=capacity > 0)


@dataclass(frozen=True, slots=True)
class Limits:
    """The most that may be used: arrays of the shape of `PoolNodes.usage`."""

    low: IntArray
    high: IntArray
    prod_low: IntArray | None
    """None: prod pods are not judged by themselves."""
    prod_high: IntArray | None


def limits_of(thresholds: Thresholds, nodes: PoolNodes) -> Limits:
    """Limits of a pool's nodes; a resource that a map does not name is not limited by it."""
    prod = bool(thresholds.prod_high)
    means = prod_means = None
    if thresholds.deviation:
        means = mean_percentages(nodes, nodes.usage)
        prod_means = mean_percentages(nodes, nodes.prod_usage)
    return Limits(
        low=_limit(thresholds.low, nodes, means, -1),
        high=_limit(thresholds.high, nodes, means, 1),
        prod_low=_limit(thresholds.prod_low, nodes, prod_means, -1) if prod else None,
        prod_high=_limit(thresholds.prod_high, nodes, prod_means, 1) if prod else None,
    )


def in_force(thresholds: Thresholds, nodes: PoolNodes) -> Thresholds:
    """The thresholds as percentages of capacity.

    By deviation what the distances from the mean come to.
    """
    if not thresholds.deviation:
        return thresholds
    if not nodes.rows.size:
        return without_means(thresholds)
    means = dict(zip(nodes.resources, mean_percentages(nodes, nodes.usage), strict=True))
    prod_means = dict(zip(nodes.resources, mean_percentages(nodes, nodes.prod_usage), strict=True))
    return from_means(thresholds, means, prod_means)


def clamped(mean: float, distance: float) -> float:
    """A percentage at a distance from the mean, within 0 and 100."""
    return min(max(mean + distance, 0.0), 100.0)


def from_means(thresholds: Thresholds, means: Percents, prod_means: Percents) -> Thresholds:
    """Thresholds by deviation as percentages, and the means in their source."""
    texts = "; ".join(
        f"{name} {means[name]:.1f}% -{thresholds.low.get(name, 0):g} +{distance:g}"
        for name, distance in sorted(thresholds.high.items())
    )
    before = "" if thresholds.source == "policy" else f"{thresholds.source}; "

    def low(distances: Percents, mean_of: Percents) -> dict[str, float]:
        return {name: clamped(mean_of[name], -distance) for name, distance in distances.items()}

    def high(distances: Percents, mean_of: Percents) -> dict[str, float]:
        return {name: clamped(mean_of[name], distance) for name, distance in distances.items()}

    return Thresholds(
        low=low(thresholds.low, means),
        high=high(thresholds.high, means),
        prod_low=low(thresholds.prod_low, prod_means),
        prod_high=high(thresholds.prod_high, prod_means),
        source=f"{before}mean of the pool's nodes: {texts}",
    )


def without_means(thresholds: Thresholds) -> Thresholds:
    """Thresholds by deviation of a pool of which nothing is measured.

    Distances from no mean limit nothing.
    """
    texts = "; ".join(
        f"{name} -{thresholds.low.get(name, 0):g} +{distance:g}"
        for name, distance in sorted(thresholds.high.items())
    )
    before = "" if thresholds.source == "policy" else f"{thresholds.source}; "
    source = f"{before}from the mean of the pool's nodes, of which none is measured: {texts}"
    return Thresholds(low={}, high={}, prod_low={}, prod_high={}, source=source)


def mean_percentages(nodes: PoolNodes, usage: IntArray) -> list[float]:
    """Mean percentage per resource over the nodes that have any of it; 0 if none has."""
    having = nodes.capacity > 0
    counted = having.sum(axis=1)
    total = nodes.percentages(usage).sum(axis=1)
    means: list[float] = np.divide(
        total, counted, out=np.zeros(len(total)), where=counted > 0
    ).tolist()
    return means


def portion(percent: float, capacity: IntArray) -> IntArray:
    """A percentage of capacities, truncated; at most what no usage exceeds."""
    return np.minimum(percent * 0.01 * capacity.astype(np.float64), UNLIMITED).astype(np.int64)


def _limit(
    percents: Percents, nodes: PoolNodes, means: Sequence[float] | None, sign: int
) -> IntArray:
    limit = np.full(nodes.usage.shape, UNLIMITED, dtype=np.int64)
    for index, name in enumerate(nodes.resources):
        if name in percents:
            percent = float(percents[name])
            if means is not None:
                percent = clamped(means[index], sign * percent)
            limit[index] = portion(percent, nodes.capacity[index])
    return limit


def classify(nodes: PoolNodes, limits: Limits) -> IntArray:
    """The class of each node, shape (nodes,): codes of `outcome.CLASSES` (docs/upstream.md L2)."""
    low = (nodes.usage <= limits.low).all(axis=0) & nodes.schedulable
    high = (nodes.usage > limits.high).any(axis=0)
    codes = np.where(low, LOW, np.where(high, HIGH, NORMAL))
    if limits.prod_low is None or limits.prod_high is None:
        return codes
    prod_high = (nodes.prod_usage > limits.prod_high).any(axis=0)
    prod_low = (nodes.prod_usage <= limits.prod_low).all(axis=0) & nodes.schedulable
    among = low | ~high
    codes[among & prod_low] = PROD_LOW
    codes[low & prod_low] = BOTH_LOW
    codes[among & prod_high] = PROD_HIGH
    return codes
