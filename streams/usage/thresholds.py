"""Usage thresholds of a node: the policy's, overridden part by part by the node's annotation.

Source: docs/upstream.md A2.2, A2.3, A6.2, A6.10, A6.11. Annotations are read when a node's state
changes, never in a decision.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from schemas.policy import LoadAwareSchedulingArgs
from schemas.policy.durations import parse_duration_ms
from streams.usage.go_json import as_integers, decode, fields

THRESHOLDS_ANNOTATION = "scheduling.koordinator.sh/usage-thresholds"


@dataclass(frozen=True, slots=True)
class AggregatedThresholds:
    """Thresholds on a percentile or average over a duration."""

    thresholds: Mapping[str, int]
    aggregation: str
    duration_ms: int
    """0: the longest duration that was measured."""


@dataclass(frozen=True, slots=True)
class Thresholds:
    """What one node's usage is compared with, in percent; 0 means not checked."""

    plain: Mapping[str, int]
    prod: Mapping[str, int]
    aggregated: AggregatedThresholds | None

    def vector(self, which: Mapping[str, int], resources: tuple[str, ...]) -> tuple[int, ...]:
        """Thresholds in the order of `resources`; a resource that is not named is not checked."""
        return tuple(which.get(resource, 0) for resource in resources)


def policy_thresholds(args: LoadAwareSchedulingArgs) -> Thresholds:
    """The thresholds of nodes without an annotation."""
    aggregated = args.aggregated
    return Thresholds(
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


def node_thresholds(annotations: Mapping[str, str], defaults: Thresholds) -> Thresholds:
    """The thresholds of one node; an annotation that cannot be read is ignored whole."""
    text = annotations.get(THRESHOLDS_ANNOTATION)
    if text is None:
        return defaults
    try:
        given = _Given()
        given.read(decode(text))
    except (ValueError, RecursionError):
        return defaults
    return Thresholds(
        plain=given.plain or defaults.plain,
        prod=given.prod or defaults.prod,
        aggregated=given.aggregated.thresholds() or defaults.aggregated,
    )


@dataclass(slots=True)
class _GivenAggregated:
    """Part `aggregatedUsage` of the annotation."""

    limits: dict[str, int] = field(default_factory=dict)
    aggregation: str = ""
    duration_ms: int = 0

    def read(self, value: Any) -> None:
        for name, item in fields(value):
            if name == "usagethresholds":
                self.limits = as_integers(item, self.limits)
            elif name == "usageaggregationtype" and item is not None:
                self.aggregation = _text(item)
            elif name == "usageaggregatedduration":
                self.duration_ms = 0 if item is None else parse_duration_ms(_text(item))

    def thresholds(self) -> AggregatedThresholds | None:
        if not self.limits or not self.aggregation:
            return None
        return AggregatedThresholds(self.limits, self.aggregation, self.duration_ms)


@dataclass(slots=True)
class _Given:
    """What the usage-thresholds annotation gives, read as Go decodes it (A6.11)."""

    plain: dict[str, int] = field(default_factory=dict)
    prod: dict[str, int] = field(default_factory=dict)
    aggregated: _GivenAggregated = field(default_factory=_GivenAggregated)

    def read(self, value: Any) -> None:
        for name, item in fields(value):
            if name == "usagethresholds":
                self.plain = as_integers(item, self.plain)
            elif name == "produsagethresholds":
                self.prod = as_integers(item, self.prod)
            elif name == "aggregatedusage":
                if item is None:
                    self.aggregated = _GivenAggregated()
                self.aggregated.read(item)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise ValueError("not a text")  # noqa: TRY004 - one error for all bad JSON
    return value
