"""Koordinator's pools (`compat: koordinator`): what it fills into their maps, and the limits that
follow.

A resource without a low threshold gets low and high ones that no node exceeds, whatever the high
one said. A pool's maps are filled at its turn, in every round. What is filled stays, also in maps
that pools inherited from the top level, so one pool changes what another sees. A map that is not
given is made anew at each turn, while its given partner keeps the fill. By deviation a low
threshold of 0 switches the resource off. Source: docs/upstream.md B1.4, B2, B5.3, B5.6, B5.8.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from schemas.policy import NodePool, Policy
from schemas.policy.lownodeload import AnomalyCondition
from streams.inventory.arrays import IntArray
from streams.rebalance.outcome import Percents, Thresholds
from streams.rebalance.pools import (
    Limits,
    Pool,
    PoolNodes,
    clamped,
    configured,
    from_means,
    portion,
    without_means,
)

_FULL = 100.0


class FilledPools:
    """The pools of a policy, and their threshold maps as rounds have filled them so far."""

    def __init__(self, policy: Policy) -> None:
        self.filled: list[dict[str, float]] = []
        """Each map of the policy once, in the order in which the pools first have it."""
        self.changed = False
        """The maps are not those of the last row."""
        copies: dict[int, dict[str, float]] = {}

        def copy(given: dict[str, float] | None) -> dict[str, float] | None:
            if given is not None and id(given) not in copies:
                copies[id(given)] = dict(given)
                self.filled.append(copies[id(given)])
            return None if given is None else copies[id(given)]

        pools = policy.rebalance.pools("koordinator")
        self.pools = tuple(_pool(index, given) for index, given in enumerate(pools))
        """With the thresholds that the policy gives."""
        self._maps = [
            [
                copy(given.low_thresholds),
                copy(given.high_thresholds),
                copy(given.prod_low_thresholds),
                copy(given.prod_high_thresholds),
            ]
            for given in pools
        ]
        self._given = [dict(each) for each in self.filled]

    def at_its_turn(self, pool: Pool) -> Pool:
        """The pool with its maps filled; their fill stays (B1.4, B5.8)."""
        low, high, prod_low, prod_high = [
            {} if each is None else each for each in self._maps[pool.index]
        ]
        absent = 0.0 if pool.thresholds.deviation else _FULL
        before = [dict(each) for each in self.filled]
        for name in sorted({"memory", *low, *high, *prod_low, *prod_high}):
            for lows, highs in ((low, high), (prod_low, prod_high)):
                if name not in lows:
                    lows[name] = highs[name] = absent
        self.changed |= self.filled != before
        # A later pool may write into the maps, which must not show in what was in force here.
        in_force = replace(
            pool.thresholds,
            low=dict(low),
            high=dict(high),
            prod_low=dict(prod_low),
            prod_high=dict(prod_high),
        )
        return replace(pool, thresholds=in_force)

    def row(self) -> tuple[dict[str, float], ...] | None:
        """The maps for a row; None: they are as the policy gives them."""
        return None if self.filled == self._given else tuple(self.filled)

    def restore(self, filled: Sequence[Mapping[str, float]] | None) -> None:
        """Take over the maps of a row that was written under the same policy."""
        for each, was in zip(self.filled, filled or (), strict=False):
            each.update(was)
        self.changed = False


def _pool(index: int, given: NodePool) -> Pool:
    return Pool(
        index=index,
        name=given.name,
        thresholds=configured(given),
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
    means = _means(nodes, usage)
    for index, name in enumerate(nodes.resources):
        capacity = nodes.capacity[index]
        least, most = float(low.get(name, 0)), float(high.get(name, 0))
        if deviation:
            if least == 0:
                limits[:, index] = capacity
                continue
            least, most = clamped(means[index], -least), clamped(means[index], most)
        limits[0, index] = portion(least, capacity)
        limits[1, index] = portion(most, capacity)
    return limits[0], limits[1]


def koordinator_in_force(thresholds: Thresholds, nodes: PoolNodes) -> Thresholds:
    """The thresholds as percentages of capacity, by deviation too (B2.4, B5.6)."""
    if not thresholds.deviation:
        return thresholds
    if not nodes.rows.size:
        return without_means(thresholds)
    means = dict(zip(nodes.resources, _means(nodes, nodes.usage), strict=True))
    prod_means = dict(zip(nodes.resources, _means(nodes, nodes.prod_usage), strict=True))
    made = from_means(thresholds, means, prod_means)
    off, prod_off = (
        {name: _FULL for name, distance in low.items() if distance == 0}
        for low in (thresholds.low, thresholds.prod_low)
    )
    return replace(
        made,
        low={**made.low, **off},
        high={**made.high, **off},
        prod_low={**made.prod_low, **prod_off},
        prod_high={**made.prod_high, **prod_off},
    )


def _means(nodes: PoolNodes, usage: IntArray) -> list[float]:
    """Mean percentage per resource, divided first as they do (B2.4).

    A node without capacity is 0 %.
    """
    used, capacity = usage.astype(np.float64), nodes.capacity.astype(np.float64)
    share = np.divide(used, capacity, out=np.zeros_like(used), where=capacity > 0)
    # Summed one after the other, as they do: numpy adds in another order.
    return [sum(each) / max(usage.shape[1], 1) for each in (share * 100.0).tolist()]
