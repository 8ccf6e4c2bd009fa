"""Usage thresholds of a node: the policy's, overridden part by part by the node's annotation.

Source: koordinator.md A2.2, A2.3, A6.2, A6.10. Annotations are read when a node's state changes, never
in a decision.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas.policy import LoadAwareSchedulingArgs
from schemas.policy.durations import parse_duration_ms
from schemas.quantities import QuantityError, amount
from streams.cluster.gojson import as_integers

THRESHOLDS_ANNOTATION = "scheduling.koordinator.sh/usage-thresholds"
RAW_ALLOCATABLE_ANNOTATION = "node.koordinator.sh/raw-allocatable"


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
        fields = _fields(json.loads(text))
        plain = _integers(fields.get("usagethresholds"))
        prod = _integers(fields.get("produsagethresholds"))
        aggregated = _aggregated(_fields(fields.get("aggregatedusage")))
    except (ValueError, RecursionError):
        return defaults
    return Thresholds(
        plain=plain or defaults.plain,
        prod=prod or defaults.prod,
        aggregated=aggregated or defaults.aggregated,
    )


def raw_allocatable(annotations: Mapping[str, str]) -> dict[str, int]:
    """Amounts of the raw-allocatable annotation; empty if there is none or one value is unreadable."""
    text = annotations.get(RAW_ALLOCATABLE_ANNOTATION)
    if text is None:
        return {}
    try:
        listed = json.loads(text, parse_float=_Number, parse_int=_Number, parse_constant=_Number)
        if not isinstance(listed, dict):
            return {}
        return {name: _quantity(name, value) for name, value in listed.items()}
    except (ValueError, RecursionError, QuantityError):
        return {}


class _Number(str):
    """A JSON number as it was written; Kubernetes reads it as a quantity."""

    __slots__ = ()


def _quantity(resource: str, value: Any) -> int:
    if value is None:
        return 0
    if not isinstance(value, str):
        raise ValueError(f"{resource}: not a quantity")  # noqa: TRY004 - one error for all bad JSON
    return amount(resource, re.sub(r"^\s+|\s+$", "", value))


def _fields(value: Any) -> dict[str, Any]:
    """A JSON object with lower-case keys: Go matches field names without regard to case."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise ValueError("not an object")  # noqa: TRY004 - one error for all bad JSON
    return {key.lower(): item for key, item in value.items()}


def _integers(value: Any) -> dict[str, int]:
    integers = as_integers(value)
    if integers is None:
        raise ValueError("not a map of integers")
    return integers


def _aggregated(fields: dict[str, Any]) -> AggregatedThresholds | None:
    thresholds = _integers(fields.get("usagethresholds"))
    aggregation = fields.get("usageaggregationtype")
    duration = fields.get("usageaggregatedduration")
    if aggregation is not None and not isinstance(aggregation, str):
        raise ValueError("usageAggregationType is not text")
    if duration is not None and not isinstance(duration, str):
        raise ValueError("usageAggregatedDuration is not text")
    duration_ms = 0 if duration is None else parse_duration_ms(duration)
    if not thresholds or not aggregation:
        return None
    return AggregatedThresholds(thresholds, aggregation, duration_ms)
