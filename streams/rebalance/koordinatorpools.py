"""Koordinator's pools (`compat: koordinator`): what it fills into their maps, and the limits that come of it.

A resource without a low threshold gets low and high ones that never hold anybody, whatever the high one
said; this is written into maps that pools inherited from the top level, so that one pool changes what another sees.
By deviation a low threshold of 0 switches the resource off. Source: koordinator.md B1.4, B2, B5.3, B5.6, B5.8.
"""

from dataclasses import replace

import numpy as np

from schemas.policy import NodePool, Policy
from schemas.policy.lownodeload import AnomalyCondition
from streams.cluster.plugins.base import IntArray
from streams.rebalance.outcome import Percents, Thresholds
from streams.rebalance.pools import Limits, Pool, PoolNodes, configured, portion

_FULL = 100.0


def koordinator_pools(policy: Policy) -> tuple[Pool, ...]:
    """The pools with what Koordinator fills into their maps, shared maps included (B1.4, B5.3)."""
    copies: dict[int, dict[str, float]] = {}

    def copy(given: dict[str, float] | None) -> dict[str, float]:
        return {} if given is None else copies.setdefault(id(given), dict(given))

    pools = []
    for index, given in enumerate(policy.rebalance.pools("koordinator")):
        low, high = copy(given.low_thresholds), copy(given.high_thresholds)
        prod_low, prod_high = copy(given.prod_low_thresholds), copy(given.prod_high_thresholds)
        absent = 0.0 if given.use_deviation_thresholds else _FULL
        for name in sorted({"memory", *low, *high, *prod_low, *prod_high}):
            for lows, highs in ((low, high), (prod_low, prod_high)):
                if name not in lows:
                    lows[name] = highs[name] = absent
        pools.append(_pool(index, given, Thresholds(low, high, prod_low, prod_high)))
    return tuple(pools)


def _pool(index: int, given: NodePool, maps: Thresholds) -> Pool:
    return Pool(
        index=index,
        name=given.name,
        thresholds=replace(maps, deviation=configured(given).deviation),
        weights=dict(given.resource_weights or {}),
        condition=given.anomaly_condition or AnomalyCondition(),
    )


def koordinator_limits(thresholds: Thresholds, nodes: PoolNodes) -> Limits:
    """Limits of a pool; thresholds that are missing have been filled in (B2.2, B2.4, B5.6)."""
    low, high = _pair(thresholds.low, thresholds.high, nodes, nodes.usage, thresholds.deviation)
    prod_low, prod_high = _pair(
        thresholds.prod_low, thresholds.prod_high, nodes, nodes.prod_usage, thresholds.deviation
    )
    return Limits(low, high, prod_low, prod_high)


def _pair(
    low: Percents, high: Percents, nodes: PoolNodes, usage: IntArray, deviation: bool
) -> tuple[IntArray, IntArray]:
    limits = np.zeros((2, *usage.shape), dtype=np.int64)
    percentages = nodes.percentages(usage)
    for index, name in enumerate(nodes.resources):
        capacity = nodes.capacity[index]
        least, most = float(low.get(name, 0)), float(high.get(name, 0))
        if deviation:
            if least == 0:
                limits[:, index] = capacity
                continue
            # Summed one after the other, as they do: numpy adds in another order.
            mean = sum(percentages[index].tolist()) / max(usage.shape[1], 1)
            least, most = (min(max(each, 0.0), _FULL) for each in (mean - least, mean + most))
        limits[0, index] = portion(least, capacity)
        limits[1, index] = portion(most, capacity)
    return limits[0], limits[1]
