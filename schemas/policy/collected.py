"""Compares what placement and rebalancing ask of metrics with what `collect` has recorded of
samples.

Only what a policy says itself: annotations of nodes may ask for other windows, and metrics that
come ready made from elsewhere have the windows that they have. So this is no reason to refuse a
policy.
"""

from collections.abc import Iterator

from schemas.policy.collecting import CollectPolicy
from schemas.policy.document import Policy
from schemas.policy.durations import format_duration_ms


def uncollected(policy: Policy) -> tuple[str, ...]:
    """What is asked for and not recorded, a sentence each: the field, what it asks, what is
    recorded, what to do."""
    collect = policy.collect
    at = {"collect": collect.of_pool(None)}
    at |= {f"collect.pools[{pool.name}]": collect.of_pool(pool.name) for pool in collect.pools}
    return tuple(
        sentence
        for place, collected in at.items()
        for sentence in (*_windows(policy, place, collected), *_ages(policy, place, collected))
    )


def _windows(policy: Policy, place: str, collected: CollectPolicy) -> Iterator[str]:
    aggregated = policy.load_aware.aggregated
    if aggregated is None:
        return
    recorded = collected.metric_aggregate_policy.durations_ms
    asked = []
    if aggregated.usage_aggregation_type:
        asked.append(("usageAggregatedDuration", aggregated.usage_aggregated_duration_ms))
    if aggregated.score_aggregation_type:
        asked.append(("scoreAggregatedDuration", aggregated.score_aggregated_duration_ms))
    for field, duration_ms in asked:
        if duration_ms and duration_ms not in recorded:
            theirs = ", ".join(map(format_duration_ms, recorded)) or "none"
            yield (
                f"loadAware.aggregated.{field} is {format_duration_ms(duration_ms)}, and "
                f"{place}.metricAggregatePolicy.durations are {theirs}: nodes are judged by estimates; record that "
                "duration, or ask for one that is recorded"
            )


def _ages(policy: Policy, place: str, collected: CollectPolicy) -> Iterator[str]:
    interval_s = collected.metric_report_interval_seconds
    asked = [("loadAware", policy.load_aware.node_metric_expiration_seconds)]
    pools = policy.rebalance.pools(policy.compat)
    if any(pool.high_thresholds or pool.prod_high_thresholds for pool in pools):
        asked.append(("rebalance", policy.rebalance.node_metric_expiration_seconds))
    for section, most_s in asked:
        if interval_s >= most_s:
            yield (
                f"{section}.nodeMetricExpirationSeconds is {most_s}, and {place}.metricReportIntervalSeconds is "
                f"{interval_s}: a metric is too old before the next one comes; report more often, or let metrics be older"
            )
