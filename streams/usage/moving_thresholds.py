"""Thresholds that follow the time of the week or the recent past.

The current thresholds depend on the policy, log time, and mean usage in recent rounds, so a restart does not
change them. Thresholds of the filter change only at ticks and rounds.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, fsum, sqrt
from typing import Any

from schemas.policy import LOAD_AWARE, Policy
from schemas.policy.sections.moving_thresholds import RecentPast
from streams.usage.thresholds import NodeThresholds, read_policy_thresholds

#: Name under which usage of the whole cluster is stored among the pools.
WHOLE_CLUSTER = ""

_PER_PERCENT = 1_000
#: Larger means, in percent, are cut off, so that one wrong measurement does not outweigh all others.
MEAN_PERCENT_MAX = 10_000


class UsageHistory:
    """Mean usage in recent rounds, in thousandths of a percent, by pool and resource."""

    def __init__(self) -> None:
        self.means: dict[str, dict[str, tuple[int, ...]]] = {}
        self.changed = False
        """Whether the row of table `usage_history` must be written."""

    def note(self, pool: str, means: Mapping[str, float], recent: RecentPast) -> None:
        """Add the means of a pool in a round, in percent by resource."""
        before = self.means.get(pool, {})
        self.means[pool] = {
            name: (*before.get(name, ()), _thousandths(means[name]))[-recent.rounds :]
            for name in sorted(recent.at_least)
            if name in means
        }
        self.changed = True

    def keep_only(self, pools: set[str]) -> None:
        """Forget all other pools."""
        for pool in self.means.keys() - pools:
            del self.means[pool]
            self.changed = True

    def threshold(self, pool: str, resource: str, recent: RecentPast) -> tuple[float, str] | None:
        """Return mean + deviations in percent, within the bounds, and an explanation.

        Returns None if fewer than half of the rounds were measured.
        """
        series = self.means.get(pool, {}).get(resource, ())[-recent.rounds :]
        if 2 * len(series) < recent.rounds or resource not in recent.at_least:
            return None
        mean = fsum(series) / len(series)
        deviation = sqrt(fsum((value - mean) ** 2 for value in series) / len(series))
        unbounded = (mean + recent.deviations * deviation) / _PER_PERCENT
        least, most = recent.at_least[resource], recent.at_most[resource]
        text = (
            f"{resource}: mean {mean / _PER_PERCENT:.1f}% + {recent.deviations:g} x "
            f"{deviation / _PER_PERCENT:.1f} of {len(series)} rounds, within {least:g} and {most:g}"
        )
        return min(max(unbounded, least), most), text


def _whole_percent(percent: float, resource: str, recent: RecentPast) -> int:
    # At least 1, because 0 means no threshold, unless the upper bound is below 1.
    least = max(ceil(recent.at_least[resource]), 1)
    return min(max(int(percent), least), int(recent.at_most[resource]))


def _thousandths(percent: float) -> int:
    return round(min(max(percent, 0), MEAN_PERCENT_MAX) * _PER_PERCENT)


@dataclass(frozen=True, slots=True)
class FilterThresholds:
    """Current thresholds of nodes without an annotation."""

    thresholds: NodeThresholds
    reported: dict[str, Any] | None
    """Fields of `LoadThresholds` in decisions; None if the thresholds are fixed or the filter is off."""


def compute_filter_thresholds(
    policy: Policy, history: UsageHistory, now_ms: int
) -> FilterThresholds:
    """Return the thresholds of the load-aware filter at a log time; 0 before the first clock tick."""
    configured = read_policy_thresholds(policy.load_aware)
    moving = policy.moving_thresholds.filter
    if moving is None or not policy.plugins.filters(LOAD_AWARE):
        return FilterThresholds(configured, None)
    source = "configured"
    plain, prod = dict(configured.plain), dict(configured.prod)
    aggregated = configured.aggregated
    texts = []
    if moving.recent_past is not None:
        for resource in sorted(moving.recent_past.at_least):
            percent_and_text = history.threshold(WHOLE_CLUSTER, resource, moving.recent_past)
            if percent_and_text is not None:
                percent, text = percent_and_text
                plain[resource] = _whole_percent(percent, resource, moving.recent_past)
                texts.append(text)
    if texts:
        source = f"recent past: {'; '.join(texts)}"
    windows = (window for window in moving.windows if now_ms and window.contains(now_ms))
    window = next(windows, None)
    if window is not None:
        source = f"window {window}; else {source}" if texts else f"window {window}"
        plain.update(window.usage_thresholds)
        prod.update(window.prod_usage_thresholds)
        if aggregated is not None:
            merged = {**aggregated.thresholds, **window.aggregated_usage_thresholds}
            aggregated = replace(aggregated, thresholds=merged)
    return FilterThresholds(
        NodeThresholds(plain, prod, aggregated),
        {
            "usage": plain,
            "prod_usage": prod,
            "aggregated_usage": {} if aggregated is None else dict(aggregated.thresholds),
            "source": source,
        },
    )
