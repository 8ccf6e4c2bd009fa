"""Thresholds that follow the time of the week or the recent past.

The thresholds in force are a function of the policy, of the log's time and of the mean usage in the
newest rounds of rebalancing, so a restart between two records changes nothing. The filter's
thresholds change at ticks and rounds only, so rankings stay valid between them.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import ceil, fsum, sqrt
from typing import Any

from schemas.policy import LOAD_AWARE, Policy
from schemas.policy.sections.moving_thresholds import RecentPast
from streams.usage.thresholds import NodeThresholds, read_policy_thresholds

#: Key of the whole cluster's usage among those of the pools.
WHOLE_CLUSTER = ""

_PER_PERCENT = 1_000
#: Largest mean that counts, in percent: thresholds end at 100, so larger means give no other
#: threshold, and a wrong measurement neither exceeds the range of a row nor outweighs all others.
MEAN_PERCENT_MAX = 10_000


class UsageHistory:
    """Mean usage in the newest rounds, in thousandths of a percent, per pool and resource."""

    def __init__(self) -> None:
        self.means: dict[str, dict[str, tuple[int, ...]]] = {}
        self.changed = False
        """The row of table `usage_history` is to be written."""

    def note(self, pool: str, means: Mapping[str, float], recent: RecentPast) -> None:
        """Add the means that a round measured for a pool, in percent per resource of the policy."""
        known = self.means.get(pool, {})
        self.means[pool] = {
            name: (*known.get(name, ()), _thousandths(means[name]))[-recent.rounds :]
            for name in sorted(recent.at_least)
            if name in means
        }
        self.changed = True

    def keep(self, pools: set[str]) -> None:
        """Forget all other pools."""
        for pool in [each for each in self.means if each not in pools]:
            del self.means[pool]
            self.changed = True

    def threshold(self, pool: str, resource: str, recent: RecentPast) -> tuple[float, str] | None:
        """Return mean plus deviations in percent, within the bounds, and an explanation.

        None: fewer than half of the rounds have been measured.
        """
        series = self.means.get(pool, {}).get(resource, ())[-recent.rounds :]
        if 2 * len(series) < recent.rounds or resource not in recent.at_least:
            return None
        mean = fsum(series) / len(series)
        deviation = sqrt(fsum((each - mean) ** 2 for each in series) / len(series))
        wanted = (mean + recent.deviations * deviation) / _PER_PERCENT
        least, most = recent.at_least[resource], recent.at_most[resource]
        text = (
            f"{resource}: mean {mean / _PER_PERCENT:.1f}% + {recent.deviations:g} x "
            f"{deviation / _PER_PERCENT:.1f} of {len(series)} rounds, within {least:g} and {most:g}"
        )
        return min(max(wanted, least), most), text


def _whole_percent(wanted: float, resource: str, recent: RecentPast) -> int:
    """Round down, within the bounds. 0 would leave the resource out, so the result is at least 1
    unless the upper bound is below 1."""
    least = max(ceil(recent.at_least[resource]), 1)
    return min(max(int(wanted), least), int(recent.at_most[resource]))


def _thousandths(percent: float) -> int:
    return round(min(max(percent, 0), MEAN_PERCENT_MAX) * _PER_PERCENT)


@dataclass(frozen=True, slots=True)
class FilterInForce:
    """Thresholds of nodes that do not override them."""

    thresholds: NodeThresholds
    reported: dict[str, Any] | None
    """Fields of `LoadThresholds` in decisions; None: they are fixed, or the filter is off."""


def compute_filter_thresholds(policy: Policy, history: UsageHistory, now_ms: int) -> FilterInForce:
    """Return the load-aware filter's thresholds at a time of the log; 0: before its first tick."""
    configured = read_policy_thresholds(policy.load_aware)
    moving = policy.moving_thresholds.filter
    if moving is None or not policy.plugins.filters(LOAD_AWARE):
        return FilterInForce(configured, None)
    source = "configured"
    plain, prod = dict(configured.plain), dict(configured.prod)
    aggregated = configured.aggregated
    texts = []
    if moving.recent_past is not None:
        for resource in sorted(moving.recent_past.at_least):
            found = history.threshold(WHOLE_CLUSTER, resource, moving.recent_past)
            if found is not None:
                plain[resource] = _whole_percent(found[0], resource, moving.recent_past)
                texts.append(found[1])
    if texts:
        source = f"recent past: {'; '.join(texts)}"
    window = next((each for each in moving.windows if now_ms and each.contains(now_ms)), None)
    if window is not None:
        source = f"window {window}; else {source}" if texts else f"window {window}"
        plain.update(window.usage_thresholds)
        prod.update(window.prod_usage_thresholds)
        if aggregated is not None:
            merged = {**aggregated.thresholds, **window.aggregated_usage_thresholds}
            aggregated = replace(aggregated, thresholds=merged)
    return FilterInForce(
        NodeThresholds(plain, prod, aggregated),
        {
            "usage": plain,
            "prod_usage": prod,
            "aggregated_usage": {} if aggregated is None else dict(aggregated.thresholds),
            "source": source,
        },
    )
