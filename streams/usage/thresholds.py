"""Usage thresholds of a node, and its profile: the largest usage that the thresholds allow.

Thresholds in the node's annotation override those of the policy. Profiles are computed when a node's state
changes, so changes of usage and pods need additions only. Thresholds of the policy may depend on the time of
the week; they change only at ticks.
Source: docs/reference/upstream.md A2, A6.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from schemas.policy import LOAD_AWARE, LoadAwareSchedulingArgs, Policy
from schemas.policy.durations import parse_duration_ms
from streams.usage.go_json import decode, read_fields, read_integers
from streams.usage.rounding import UNBOUNDED, find_largest_usage
from streams.usage.vectors import Vector

THRESHOLDS_ANNOTATION = "scheduling.koordinator.sh/usage-thresholds"


@dataclass(frozen=True, slots=True)
class AggregatedThresholds:
    """Thresholds on a percentile or average over a duration."""

    thresholds: Mapping[str, int]
    aggregation: str
    duration_ms: int
    """0 for the longest measured duration."""


_NOT_AGGREGATED = AggregatedThresholds({}, "", 0)


@dataclass(frozen=True, slots=True)
class NodeThresholds:
    """Percentages with which the usage of one node is compared; 0 is not checked."""

    plain: Mapping[str, int]
    prod: Mapping[str, int]
    aggregated: AggregatedThresholds | None


def read_policy_thresholds(args: LoadAwareSchedulingArgs) -> NodeThresholds:
    """Return the thresholds of nodes without an annotation."""
    aggregated = args.aggregated
    return NodeThresholds(
        plain=args.usage_thresholds,
        prod=args.prod_usage_thresholds,
        aggregated=AggregatedThresholds(
            aggregated.usage_thresholds,
            aggregated.usage_aggregation_type,
            aggregated.usage_aggregated_duration_ms or 0,
        )
        if aggregated and aggregated.usage_thresholds and aggregated.usage_aggregation_type
        else None,
    )


def read_node_thresholds(
    annotations: Mapping[str, str], defaults: NodeThresholds
) -> NodeThresholds:
    """Return the thresholds of one node; an annotation that Go cannot decode is ignored."""
    text = annotations.get(THRESHOLDS_ANNOTATION)
    if text is None:
        return defaults
    try:
        annotation = _read_annotation(decode(text))
    except (ValueError, RecursionError):
        return defaults
    return NodeThresholds(
        plain=annotation.plain or defaults.plain,
        prod=annotation.prod or defaults.prod,
        aggregated=annotation.aggregated or defaults.aggregated,
    )


def _read_annotation(value: Any) -> NodeThresholds:
    """Return the content of the usage-thresholds annotation, as Go decodes it (A6)."""
    plain: dict[str, int] = {}
    prod: dict[str, int] = {}
    aggregated = _NOT_AGGREGATED
    for name, item in read_fields(value):
        if name == "usagethresholds":
            plain = read_integers(item, plain)
        elif name == "produsagethresholds":
            prod = read_integers(item, prod)
        elif name == "aggregatedusage":
            aggregated = _NOT_AGGREGATED if item is None else _read_aggregated(item, aggregated)
    is_complete = aggregated.thresholds and aggregated.aggregation
    return NodeThresholds(plain, prod, aggregated if is_complete else None)


def _read_aggregated(value: Any, before: AggregatedThresholds) -> AggregatedThresholds:
    """Return part `aggregatedUsage` of the annotation, merged into an earlier part of the same name."""
    thresholds, aggregation = dict(before.thresholds), before.aggregation
    duration_ms = before.duration_ms
    for name, item in read_fields(value):
        if name == "usagethresholds":
            thresholds = read_integers(item, thresholds)
        elif name == "usageaggregationtype" and item is not None:
            aggregation = _read_text(item)
        elif name == "usageaggregatedduration":
            duration_ms = 0 if item is None else parse_duration_ms(_read_text(item))
    return AggregatedThresholds(thresholds, aggregation, duration_ms)


def _read_text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")  # noqa: TRY004 - one error for all bad JSON
    return value


# --- profile of a node ----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """Vectors over the resources of the policy."""

    total: Vector
    """Capacity of the node."""
    usage_max: Vector | None
    """Largest usage that the thresholds for all pods allow; None if nothing is checked. `UNBOUNDED` for
    resources without a threshold or capacity."""
    prod_usage_max: Vector | None
    """Largest usage of prod pods; None if `usage_max` applies to them."""
    aggregation: str | None
    """Statistic that `usage_max` limits; None for mean usage."""
    aggregated_ms: int
    """Duration of that statistic; 0 for the longest measured duration."""


def build_profile(
    capacity: Mapping[str, int],
    annotations: Mapping[str, str],
    resources: tuple[str, ...],
    defaults: NodeThresholds,
) -> NodeProfile:
    """Return the profile of a node; `defaults` are the thresholds of nodes without an annotation."""
    total = tuple([capacity.get(name, 0) for name in resources])
    thresholds = read_node_thresholds(annotations, defaults)
    aggregated = thresholds.aggregated
    checked = thresholds.plain if aggregated is None else aggregated.thresholds
    return NodeProfile(
        total=total,
        usage_max=_compute_usage_max(total, checked, resources),
        prod_usage_max=_compute_usage_max(total, thresholds.prod, resources),
        aggregation=None if aggregated is None else aggregated.aggregation,
        aggregated_ms=0 if aggregated is None else aggregated.duration_ms,
    )


def _compute_usage_max(
    total: Vector, thresholds: Mapping[str, int], resources: tuple[str, ...]
) -> Vector | None:
    percents = [thresholds.get(resource, 0) for resource in resources]
    if not any(percents):
        return None
    return tuple(
        find_largest_usage(capacity, percent) if percent and capacity > 0 else UNBOUNDED
        for capacity, percent in zip(total, percents, strict=True)
    )


# --- thresholds by the time of the week ---------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FilterThresholds:
    """Current thresholds of nodes without an annotation."""

    thresholds: NodeThresholds
    reported: dict[str, Any] | None
    """Fields of `LoadThresholds` in decisions; None if the thresholds are fixed or the filter is off."""


def compute_filter_thresholds(policy: Policy, now_ms: int) -> FilterThresholds:
    """Return the thresholds of the load-aware filter at a log time, which is 0 before the first clock tick."""
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
