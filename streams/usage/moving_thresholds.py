"""Thresholds of the load-aware filter that follow the time of the week. They change only at ticks."""

from dataclasses import dataclass, replace
from typing import Any

from schemas.policy import LOAD_AWARE, Policy
from streams.usage.thresholds import NodeThresholds, read_policy_thresholds


@dataclass(frozen=True, slots=True)
class FilterThresholds:
    """Current thresholds of nodes without an annotation."""

    thresholds: NodeThresholds
    reported: dict[str, Any] | None
    """Fields of `LoadThresholds` in decisions; None if the thresholds are fixed or the filter is off."""


def compute_filter_thresholds(policy: Policy, now_ms: int) -> FilterThresholds:
    """Return the thresholds of the load-aware filter at a log time; 0 before the first clock tick."""
    configured = read_policy_thresholds(policy.load_aware)
    moving = policy.moving_thresholds.filter
    if moving is None or not policy.plugins.filters(LOAD_AWARE):
        return FilterThresholds(configured, None)
    source = "configured"
    plain, prod = dict(configured.plain), dict(configured.prod)
    aggregated = configured.aggregated
    windows = (window for window in moving.windows if now_ms and window.contains(now_ms))
    window = next(windows, None)
    if window is not None:
        source = f"window {window}"
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
