"""Thresholds of a pool at a time: configured, of a weekly window, or from the recent past."""

from dataclasses import replace

from schemas.policy import Policy
from schemas.policy.sections.moving_thresholds import HotspotWindow, RecentPast
from streams.rebalance.outcome import Percents, PoolThresholds, RoundOutcome
from streams.usage.moving_thresholds import WHOLE_CLUSTER, UsageHistory


def resolve_thresholds(
    policy: Policy, history: UsageHistory, pool: str, configured: PoolThresholds, now_ms: int
) -> PoolThresholds:
    """Return the thresholds of a pool at a log time."""
    moving = policy.moving_thresholds.of_pool(pool)
    if moving is None:
        return configured
    thresholds = configured
    if moving.recent_past is not None:
        thresholds = _apply_recent_past(thresholds, history, pool, moving.recent_past)
    window = next((window for window in moving.windows if window.contains(now_ms)), None)
    return thresholds if window is None else _apply_window(thresholds, window)


def _apply_window(thresholds: PoolThresholds, window: HotspotWindow) -> PoolThresholds:
    high = {**thresholds.high, **window.high_thresholds}
    prod_high = {**thresholds.prod_high, **window.prod_high_thresholds}
    return replace(
        thresholds,
        low=_at_most({**thresholds.low, **window.low_thresholds}, high),
        high=high,
        prod_low=_at_most({**thresholds.prod_low, **window.prod_low_thresholds}, prod_high),
        prod_high=prod_high,
        source=_join_sources(thresholds.source, f"window {window}"),
        without_target=window.evict_without_target,
    )


def _join_sources(before: str, source: str) -> str:
    return source if before == "policy" else f"{source}; else {before}"


def _apply_recent_past(
    thresholds: PoolThresholds, history: UsageHistory, pool: str, recent: RecentPast
) -> PoolThresholds:
    high, texts = dict(thresholds.high), []
    for resource in sorted(recent.at_least):
        percent_and_text = history.threshold(pool, resource, recent)
        if percent_and_text is not None and resource in high:
            high[resource] = percent_and_text[0]
            texts.append(percent_and_text[1])
    if not texts:
        return thresholds
    prod_high = _at_most(thresholds.prod_high, high)
    return replace(
        thresholds,
        low=_at_most(thresholds.low, high),
        high=high,
        prod_low=_at_most(thresholds.prod_low, prod_high),
        prod_high=prod_high,
        source=f"recent past: {'; '.join(texts)}",
    )


def _at_most(percents: Percents, bounds: Percents) -> dict[str, float]:
    return {name: min(percent, bounds.get(name, percent)) for name, percent in percents.items()}


def record_means(
    policy: Policy, history: UsageHistory, outcome: RoundOutcome, cluster_means: dict[str, float]
) -> None:
    """Record mean usage of pools, and of the `cluster_means` cluster in percent, if thresholds depend on it."""
    moving = policy.moving_thresholds
    recorded = set()
    if moving.filter is not None and moving.filter.recent_past is not None:
        recorded.add(WHOLE_CLUSTER)
        if cluster_means:
            history.note(WHOLE_CLUSTER, cluster_means, moving.filter.recent_past)
    for pool, means in outcome.means.items():
        entry = moving.of_pool(pool)
        if entry is not None and entry.recent_past is not None:
            recorded.add(pool)
            if means:
                history.note(pool, means, entry.recent_past)
    history.keep_only(recorded)


def watched_resources(policy: Policy) -> set[str]:
    """Return the resources from whose usage thresholds of the filter are computed."""
    moving = policy.moving_thresholds.filter
    recent = None if moving is None else moving.recent_past
    return set() if recent is None else set(recent.at_least)
