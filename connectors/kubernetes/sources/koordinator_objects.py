"""Koordinator's objects as plain values: NodeMetrics, and the ConfigMap with the report interval.

A NodeMetric becomes a message of topic `node-metrics` with its amounts, aggregates, pods and host
applications. The message has no fields for `prodReclaimableMetric`, QoS classes, extensions and devices.
Shapes: `apis/slo/v1alpha1` of Koordinator.

The ConfigMap `slo-controller-config` has, under `colocation-config`, a policy for all nodes and policies
for nodes with certain labels. Koordinator's manager copies the policy into each NodeMetric
(`spec.metricCollectPolicy`), where the agent reads it. So an interval in the NodeMetric takes precedence
over the ConfigMap. An interval of 0 or below is ignored, as in Koordinator.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import orjson

from connectors.kubernetes.api.times import parse_time_ms
from schemas.base.quantities import parse_amounts
from schemas.messages.metrics import AGGREGATION_TYPES, NodeMetric
from schemas.policy.durations import parse_duration_ms
from schemas.policy.wording import describe

#: Memory definitions of koordlet's policies; other policies have none.
_MEMORY = {
    "": "notAvailable",
    "usageWithoutPageCache": "notAvailable",
    "usageWithPageCache": "withPageCache",
}


def convert_node_metric(
    cluster: str, found: Mapping[str, Any], report_ms: int | None
) -> NodeMetric:
    """Convert a NodeMetric object.

    Raises ValueError (also as QuantityError or ValidationError) for an invalid value or shape.
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
                "aggregated": _read_aggregates(metric.get("aggregatedNodeUsages")),
                "aggregated_system": _read_aggregates(metric.get("aggregatedSystemUsages")),
            }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the object is not a NodeMetric: {error!r}") from error
    return NodeMetric.model_validate(values)


def build_removed(cluster: str, node: str) -> NodeMetric:
    return NodeMetric(cluster=cluster, node=node, removed=True)


def _amounts(found: Mapping[str, Any] | None) -> dict[str, int]:
    # A quantity may be a plain number in JSON.
    listed = (found or {}).get("resources") or {}
    return parse_amounts({name: str(text) for name, text in listed.items()})


def _read_aggregates(found: Any) -> tuple[dict[str, Any], ...]:
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


NAMESPACE, NAME, KEY = "koordinator-system", "slo-controller-config", "colocation-config"


class PolicyUnreadable(ValueError):
    """The ConfigMap is invalid; the message says why."""


@dataclass(frozen=True, slots=True)
class CollectIntervals:
    """Report intervals in ms; None: not configured."""

    of_cluster_ms: int | None = None
    of_nodes: tuple[tuple[Mapping[str, Any], int | None], ...] = ()
    """Label selector and interval of each policy for certain nodes, in order."""

    def report_ms(self, spec: Mapping[str, Any], labels: Mapping[str, str]) -> int | None:
        """Return the interval of a node, by its NodeMetric's spec and its own labels."""
        interval_ms = _interval_ms(
            (spec.get("metricCollectPolicy") or {}).get("reportIntervalSeconds")
        )
        if interval_ms is not None:
            return interval_ms
        for selector, interval_ms in self.of_nodes:
            if _selects(selector, labels):
                # The first matching policy applies; the cluster's is its default.
                return interval_ms or self.of_cluster_ms
        return self.of_cluster_ms


def read_config_map(found: Mapping[str, Any]) -> CollectIntervals:
    """Return the intervals of the ConfigMap; raises PolicyUnreadable."""
    text = (found.get("data") or {}).get(KEY)
    if not text:
        return CollectIntervals()
    try:
        return _read(orjson.loads(text))
    except (orjson.JSONDecodeError, AttributeError, TypeError) as error:
        metadata = found.get("metadata") or {}
        place = f"{metadata.get('namespace', NAMESPACE)}/{metadata.get('name', NAME)}"
        raise PolicyUnreadable(f"ConfigMap {place}, {KEY}: {error}") from error


def _read(config: Any) -> CollectIntervals:
    """Raises TypeError and AttributeError."""
    if config is None:  # Koordinator reads it as {}
        return CollectIntervals()
    if not isinstance(config, dict):
        raise TypeError(f"found {describe(config)}; allowed is a map")
    return CollectIntervals(
        _given_ms(config),
        tuple(
            (_check_selector(each["nodeSelector"]), _given_ms(each))
            for each in config.get("nodeConfigs") or ()
            if each.get("nodeSelector") is not None
        ),
    )


def _given_ms(config: Mapping[str, Any]) -> int | None:
    """Raises TypeError, because Koordinator rejects the whole policy then."""
    seconds = config.get("metricReportIntervalSeconds")
    if seconds is not None and type(seconds) is not int:
        raise TypeError(
            f"metricReportIntervalSeconds: found {describe(seconds)}; allowed is an integer"
        )
    return _interval_ms(seconds)


def _check_selector(selector: Any) -> Mapping[str, Any]:
    """Return the checked label selector; raises TypeError."""
    labels, expressions = selector.get("matchLabels"), selector.get("matchExpressions")
    if not isinstance(labels, dict | None):
        raise TypeError(f"nodeSelector.matchLabels: found {labels!r}; allowed is a map")
    if not isinstance(expressions, list | None) or not all(
        isinstance(each, dict)
        and isinstance(each.get("key"), str)
        and isinstance(each.get("values"), list | None)
        for each in expressions or ()
    ):
        raise TypeError(
            f"nodeSelector.matchExpressions: found {expressions!r}; allowed is a list of maps with key, "
            "operator and a list of values"
        )
    return {"matchLabels": labels, "matchExpressions": expressions}


def _interval_ms(seconds: object) -> int | None:
    return seconds * 1_000 if isinstance(seconds, int) and 0 < seconds < 2**31 else None


def _selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Apply a label selector of Kubernetes; with an unknown operator it selects nothing."""
    for name, value in (selector.get("matchLabels") or {}).items():
        if labels.get(name) != value:
            return False
    for each in selector.get("matchExpressions") or ():
        name, values = each.get("key"), each.get("values") or ()
        match each.get("operator"):
            case "In":
                good = labels.get(name) in values
            case "NotIn":
                good = labels.get(name) not in values
            case "Exists":
                good = name in labels
            case "DoesNotExist":
                good = name not in labels
            case _:
                good = False
        if not good:
            return False
    return True
