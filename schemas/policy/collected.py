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
from schemas.policy.plugins import LOAD_AWARE, OVERUTILIZATION_RISK


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
    if aggregated.filters and policy.plugins.filters(LOAD_AWARE):
        asked.append(("usageAggregatedDuration", aggregated.usage_aggregated_duration_ms))
    if aggregated.score_aggregation_type and policy.plugins.scores(LOAD_AWARE):
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
    args, asked = policy.load_aware, []
    filters = args.filter_expired_node_metrics and policy.plugins.filters(LOAD_AWARE)
    if filters or policy.plugins.scores(LOAD_AWARE):
        asked.append(("loadAware", args.node_metric_expiration_seconds))
    if policy.judges_by_thresholds or policy.plugins.balances(OVERUTILIZATION_RISK):
        asked.append(("rebalance", policy.rebalance.node_metric_expiration_seconds))
    for section, most_s in asked:
        if interval_s >= most_s:
            yield (
                f"{section}.nodeMetricExpirationSeconds is {most_s}, and {place}.metricReportIntervalSeconds is "
                f"{interval_s}: a metric is too old before the next one comes; report more often, or let metrics be older"
            )
