"""Thresholds of a pool as they are in force now.

Configured, of a weekly window, or of the recent past.
"""

from dataclasses import replace

from schemas.policy import Policy
from schemas.policy.sections.moving_thresholds import HotspotWindow, RecentPast
from streams.rebalance.outcome import Percents, PoolThresholds, RoundOutcome
from streams.usage.moving_thresholds import WHOLE_CLUSTER, UsageHistory


def pool_in_force(
    policy: Policy, history: UsageHistory, pool: str, configured: PoolThresholds, now_ms: int
) -> PoolThresholds:
    """The thresholds of a pool at a time of the log."""
    moving = policy.moving_thresholds.of_pool(pool)
    if moving is None:
        return configured
    found = configured
    if moving.recent_past is not None:
        found = _recent(found, history, pool, moving.recent_past)
    window = next((each for each in moving.windows if each.contains(now_ms)), None)
    return found if window is None else _windowed(found, window)


def _windowed(thresholds: PoolThresholds, window: HotspotWindow) -> PoolThresholds:
    high = {**thresholds.high, **window.high_thresholds}
    prod_high = {**thresholds.prod_high, **window.prod_high_thresholds}
    return replace(
        thresholds,
        low=_at_most({**thresholds.low, **window.low_thresholds}, high),
        high=high,
        prod_low=_at_most({**thresholds.prod_low, **window.prod_low_thresholds}, prod_high),
        prod_high=prod_high,
        source=_joined(thresholds.source, f"window {window}"),
        without_target=window.evict_without_target,
    )


def _joined(before: str, source: str) -> str:
    """All sources that change different resources at once.

    The last one, which counts first, comes first.
    """
    return source if before == "policy" else f"{source}; else {before}"


def _recent(
    thresholds: PoolThresholds, history: UsageHistory, pool: str, recent: RecentPast
) -> PoolThresholds:
    high, texts = dict(thresholds.high), []
    for resource in sorted(recent.at_least):
        found = history.threshold(pool, resource, recent)
        if found is not None and resource in high:
            high[resource] = found[0]
            texts.append(found[1])
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


def note_round(
    policy: Policy, history: UsageHistory, outcome: RoundOutcome, whole: dict[str, float]
) -> None:
    """Keep the mean usage of a round, where thresholds are worked out from it.

    Args:
        policy: says for which pools and resources.
        history: of the rounds before.
        outcome: of the round.
        whole: mean usage of all measured nodes in percent; empty: none was measured.
    """
    moving = policy.moving_thresholds
    asked = set()
    if moving.filter is not None and moving.filter.recent_past is not None:
        asked.add(WHOLE_CLUSTER)
        if whole:
            history.note(WHOLE_CLUSTER, whole, moving.filter.recent_past)
    for pool, means in outcome.means.items():
        entry = moving.of_pool(pool)
        if entry is not None and entry.recent_past is not None:
            asked.add(pool)
            if means:
                history.note(pool, means, entry.recent_past)
    history.keep(asked)


def watched_resources(policy: Policy) -> set[str]:
    """Resources whose usage the filter's thresholds are worked out from."""
    moving = policy.moving_thresholds.filter
    recent = None if moving is None else moving.recent_past
    return set() if recent is None else set(recent.at_least)
