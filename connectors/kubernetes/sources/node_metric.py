"""Koordinator's NodeMetric object as a message of topic `node-metrics`.

Amounts, aggregates, pods and host applications as they are; `prodReclaimableMetric`, QoS classes,
extensions and devices have no place in the message. Shapes: `apis/slo/v1alpha1` of Koordinator.
"""

from collections.abc import Mapping
from typing import Any

from connectors.kubernetes.sources.directory import parse_time_ms
from schemas.base.quantities import parse_amounts
from schemas.messages.metrics import AGGREGATION_TYPES, NodeMetric
from schemas.policy.durations import parse_duration_ms

#: What koordlet's policies of memory count; others have no name here.
_MEMORY = {
    "": "notAvailable",
    "usageWithoutPageCache": "notAvailable",
    "usageWithPageCache": "withPageCache",
}


def convert_node_metric(
    cluster: str, found: Mapping[str, Any], report_ms: int | None
) -> NodeMetric:
    """The message of an object.

    Raises:
        ValueError: a figure cannot be read (a QuantityError and pydantic's ValidationError are
            ValueErrors), or the object has not the shape of a NodeMetric.
    """
    try:
        status = found.get("status") or {}
        collect = (found.get("spec") or {}).get("metricCollectPolicy") or {}
        metric = status.get("nodeMetric")
        values: dict[str, Any] = {
            "cluster": cluster,
            "node": found["metadata"]["name"],
            "updated_at_ms": parse_time_ms(status.get("updateTime")),
            "report_interval_ms": report_ms,
            "memory_is": _MEMORY.get(collect.get("nodeMemoryCollectPolicy") or ""),
            "pods": tuple(
                {
                    "namespace": each["namespace"],
                    "name": each["name"],
                    "usage": _amounts(each.get("podUsage")),
                    "priority_class": each.get("priority", ""),
                }
                for each in status.get("podsMetric") or ()
            ),
            "host_applications": tuple(
                {
                    "name": each["name"],
                    "usage": _amounts(each.get("usage")),
                    "priority_class": each.get("priority", ""),
                }
                for each in status.get("hostApplicationMetric") or ()
            ),
        }
        if metric is not None:
            values |= {
                "usage": _amounts(metric.get("nodeUsage")),
                "system_usage": _amounts(metric.get("systemUsage")),
                "aggregated": _aggregated(metric.get("aggregatedNodeUsages")),
                "aggregated_system": _aggregated(metric.get("aggregatedSystemUsages")),
            }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the object has not the shape of a NodeMetric: {error!r}") from error
    return NodeMetric.model_validate(values)


def build_removed(cluster: str, node: str) -> NodeMetric:
    """The message that a node's metric is gone."""
    return NodeMetric(cluster=cluster, node=node, removed=True)


def _amounts(found: Mapping[str, Any] | None) -> dict[str, int]:
    # A quantity may stand as a bare number in JSON.
    listed = (found or {}).get("resources") or {}
    return parse_amounts({name: str(text) for name, text in listed.items()})


def _aggregated(found: Any) -> tuple[dict[str, Any], ...]:
    return tuple(
        {
            "duration_ms": parse_duration_ms(each.get("duration") or "0s"),
            "usage": {
                kind: _amounts(usage)
                for kind, usage in (each.get("usage") or {}).items()
                if kind in AGGREGATION_TYPES
            },
        }
        for each in found or ()
    )
