"""Thresholds of a pool at a time: configured, or of a weekly window."""

from dataclasses import replace

from schemas.policy import Policy
from streams.rebalance.outcome import Percents, PoolThresholds


def resolve_thresholds(
    policy: Policy, pool: str, configured: PoolThresholds, now_ms: int
) -> PoolThresholds:
    """Return the thresholds of a pool at a log time."""
    moving = policy.moving_thresholds.of_pool(pool)
    windows = () if moving is None else moving.windows
    window = next((window for window in windows if window.contains(now_ms)), None)
    if window is None:
        return configured
    high = {**configured.high, **window.high_thresholds}
    prod_high = {**configured.prod_high, **window.prod_high_thresholds}
    return replace(
        configured,
        low=_at_most({**configured.low, **window.low_thresholds}, high),
        high=high,
        prod_low=_at_most({**configured.prod_low, **window.prod_low_thresholds}, prod_high),
        prod_high=prod_high,
        source=f"window {window}",
        without_target=window.evict_without_target,
    )


def _at_most(percents: Percents, bounds: Percents) -> dict[str, float]:
    return {name: min(percent, bounds.get(name, percent)) for name, percent in percents.items()}
