"""Node pools of a policy, and their thresholds by the policy, weekly windows and Koordinator's rules.

By Koordinator's rules, a resource without a low threshold gets low and high thresholds that no node
exceeds, even if it has a high threshold. Each round writes these values into the maps of one pool after
the other. The values stay there, and pools share maps that they inherit from the top level, so one pool
changes the thresholds of another. A map that the policy lacks is empty again in each round.
Source: docs/reference/upstream.md B1, B5.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from schemas.messages.rounds import ThresholdMapsRow
from schemas.policy import NodePool, Policy
from schemas.policy.sections.rebalance import AnomalyCondition
from schemas.policy.selectors import LabelSelector
from streams.rebalance.differences import Differences
from streams.rebalance.outcome import Percents, PoolThresholds
from streams.stage.tracked_rows import TrackedRows

_FULL = 100.0


@dataclass(frozen=True, slots=True)
class Pool:
    index: int
    """Position of the pool in the policy, and of its selector in the columns."""
    name: str
    selector: LabelSelector | None
    thresholds: PoolThresholds
    weights: dict[str, int]
    condition: AnomalyCondition


def list_resources(thresholds: PoolThresholds) -> tuple[str, ...]:
    """Return the resources that have a threshold, sorted."""
    names = {*thresholds.low, *thresholds.high, *thresholds.prod_low, *thresholds.prod_high}
    return tuple(sorted(names))


def resolve_thresholds(
    policy: Policy, pool: str, configured: PoolThresholds, now_ms: int
) -> PoolThresholds:
    """Return the `configured` thresholds of a pool, changed by a weekly window that contains `now_ms`."""
    moving = policy.moving_thresholds.of_pool(pool)
    windows = () if moving is None else moving.windows
    window = next((window for window in windows if window.contains(now_ms)), None)
    if window is None:
        return configured
    high = {**configured.high, **window.high_thresholds}
    prod_high = {**configured.prod_high, **window.prod_high_thresholds}
    return replace(
        configured,
        low=_cap({**configured.low, **window.low_thresholds}, high),
        high=high,
        prod_low=_cap({**configured.prod_low, **window.prod_low_thresholds}, prod_high),
        prod_high=prod_high,
        source=f"window {window}",
        without_target=window.evict_without_target,
    )


def _cap(percents: Percents, bounds: Percents) -> dict[str, float]:
    return {name: min(percent, bounds.get(name, percent)) for name, percent in percents.items()}


class Pools:
    """The pools of a policy in their order, and their threshold maps with filled-in values."""

    def __init__(self, policy: Policy, differences: Differences) -> None:
        self._as_given = differences.thresholds_as_given
        configured = policy.rebalance.pools(policy.compat)
        self.pools = tuple(
            _build_pool(index, pool, self._as_given) for index, pool in enumerate(configured)
        )
        copies: dict[int, dict[str, float]] = {}
        self._maps = [
            [
                None if percents is None else copies.setdefault(id(percents), dict(percents))
                for percents in (
                    pool.low_thresholds,
                    pool.high_thresholds,
                    pool.prod_low_thresholds,
                    pool.prod_high_thresholds,
                )
            ]
            for pool in configured
        ]
        self.filled = list(copies.values())
        """Each map of the policy once, in the order of the first pool that has the map."""
        self._configured = [dict(percents) for percents in self.filled]

    def fill_in(self, pool: Pool) -> PoolThresholds:
        """Return the thresholds of a pool; by Koordinator's rules, fill in its maps first."""
        if self._as_given:
            return pool.thresholds
        low, high, prod_low, prod_high = [
            {} if percents is None else percents for percents in self._maps[pool.index]
        ]
        default = 0.0 if pool.thresholds.deviation else _FULL
        for name in sorted({"memory", *low, *high, *prod_low, *prod_high}):
            for lows, highs in ((low, high), (prod_low, prod_high)):
                if name not in lows:
                    lows[name] = highs[name] = default
        # Copies, because a later pool may change the maps.
        return replace(
            pool.thresholds,
            low=dict(low),
            high=dict(high),
            prod_low=dict(prod_low),
            prod_high=dict(prod_high),
        )

    def copy_changed_maps(self) -> tuple[dict[str, float], ...] | None:
        """Return the maps with their filled-in values; None if they equal the maps of the policy."""
        return None if self.filled == self._configured else tuple(map(dict, self.filled))

    def restore(self, filled: Sequence[Mapping[str, float]]) -> None:
        """Restore the maps from a row that was written under the same policy."""
        for percents, stored in zip(self.filled, filled, strict=False):
            percents.update(stored)


class ThresholdMapsTable(TrackedRows[str, ThresholdMapsRow]):
    """Row of kind `threshold_maps` of one cluster; it is deleted when a policy has other maps."""

    def __init__(self, cluster: str, pools: Pools) -> None:
        super().__init__("threshold_maps")
        self._cluster, self.pools = cluster, pools
        self._written: tuple[dict[str, float], ...] | None = None

    def note_changed(self) -> None:
        if self.pools.copy_changed_maps() != self._written:
            self.changed[""] = None

    def build_row(self, key: str) -> ThresholdMapsRow | None:
        self._written = maps = self.pools.copy_changed_maps()
        return None if maps is None else ThresholdMapsRow(cluster=self._cluster, maps=maps)

    def restore_row(self, row: ThresholdMapsRow) -> None:
        self.pools.restore(row.maps)
        self._written = self.pools.copy_changed_maps()


def _build_pool(index: int, pool: NodePool, as_given: bool) -> Pool:
    thresholds = PoolThresholds(
        low=dict(pool.low_thresholds or {}),
        high=dict(pool.high_thresholds or {}),
        prod_low=dict(pool.prod_low_thresholds or {}),
        prod_high=dict(pool.prod_high_thresholds or {}),
        deviation=pool.use_deviation_thresholds,
    )
    weights = dict(pool.resource_weights or {})
    if as_given:
        resources = sorted({*thresholds.high, *thresholds.prod_high})
        weights = {**dict.fromkeys(resources, 1), **weights}
    return Pool(
        index=index,
        name=pool.name,
        selector=pool.node_selector,
        thresholds=thresholds,
        weights=weights,
        condition=pool.anomaly_condition or AnomalyCondition(),
    )
