"""Koordinator's NodeMetric objects, which are aggregates and go to `node-metrics`.

The objects are listed and watched. A deleted object becomes a message with `removed`. The newest unread
object of each node is kept. If Koordinator is not installed, this is noted and checked again.

Times are from the clock of the node that computed the figures. They are not corrected, because windows
depend on them. A time too far ahead of our clock is reported.
"""

import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from typing import Any, ClassVar, Literal

from pydantic import Field

from connectors.kubernetes.api.list_watch import (
    Begun,
    Changed,
    Deleted,
    Ended,
    Event,
    ListWatch,
    Present,
)
from connectors.kubernetes.api.times import parse_time_ms
from connectors.kubernetes.sources.base import (
    KubernetesSource,
    NewestMessages,
    SourceContext,
    explain_error,
)
from connectors.kubernetes.sources.health import SKEW_MAX_MS, SourceFailed
from connectors.kubernetes.sources.settings import Interval, SourceSettings
from schemas.base.quantities import parse_amounts
from schemas.messages.metrics import AGGREGATION_TYPES, NodeMetric
from schemas.policy.durations import parse_duration_ms

#: Memory definitions of koordlet's policies; other policies have none.
_MEMORY = {
    "": "notAvailable",
    "usageWithoutPageCache": "notAvailable",
    "usageWithPageCache": "withPageCache",
}
NODE_METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
#: Time between two reads, in seconds.
READ_S = 0.25
#: A failure after a complete list is reported after this time, in seconds, because a watch that ends is
#: opened again within seconds.
FAILING_S = 10.0


class KoordinatorSettings(SourceSettings):
    """Settings of NodeMetric objects, with a longer default interval."""

    interval_ms: Interval = Field(60_000, alias="interval")
    """How often the agent reports; a node may be silent for three intervals."""


class Koordinator(KubernetesSource[KoordinatorSettings]):
    """Aggregates of nodes, as koordlet reports them."""

    name: ClassVar[str] = "koordinator"
    topic: ClassVar[Literal["node-usage", "node-metrics"]] = "node-metrics"
    settings_class: ClassVar[type[SourceSettings]] = KoordinatorSettings
    needs_pods: ClassVar[bool] = False

    def __init__(self, settings: KoordinatorSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self.interval_s = READ_S
        self._newest: NewestMessages[NodeMetric] = NewestMessages(self.health)
        self._versions: dict[str, str] = {}
        """Version of the newest object of each node."""
        self._metrics = ListWatch(context.server, NODE_METRICS)

    async def read(self) -> AsyncIterator[NodeMetric]:
        """Yield the objects that changed since the last call; raises SourceFailed."""
        async for message in self._newest.read():
            self.health.counts["samples"] += 1
            yield message
        why = _find_failure(self._metrics)
        if not why:
            return
        if why.startswith("404"):
            note = "Koordinator's NodeMetric is not installed in this cluster"
            raise SourceFailed("not_installed", f"{note} ({NODE_METRICS})")
        raise SourceFailed("forbidden" if why.startswith("403") else "unreachable", why)

    async def run(self) -> None:
        """Follow the objects until it is cancelled."""
        await self._metrics.follow(self.take_metrics)

    async def take_metrics(self, events: AsyncGenerator[Event, None]) -> None:
        """Apply the events of a list and watch of NodeMetric objects."""
        listed: set[str] | None = None
        async for event in events:
            match event:
                case Begun():
                    listed = set()
                case Present(obj) | Changed(obj):
                    if listed is not None:
                        listed.add(obj["metadata"]["name"])
                    self._take(obj)
                case Ended() if listed is not None:
                    for node in self._versions.keys() - listed:
                        self._remove(node)
                    listed = None
                case Deleted(obj):
                    self._remove(obj["metadata"]["name"])

    def _take(self, obj: Mapping[str, Any]) -> None:
        node = obj["metadata"]["name"]
        try:
            message = convert_node_metric(self.cluster, obj)
        except (ValueError, AttributeError) as error:
            why = f"NodeMetric {node}: {explain_error(error, NodeMetric)}"
            self.health.record_failure(SourceFailed("unreadable", why), node)
            return
        version = obj["metadata"]["resourceVersion"]
        if self._versions.get(node) == version:
            return  # unchanged in a new list
        self._versions[node] = version
        self.health.record_success(node)
        ahead_ms = (message.updated_at_ms or 0) - self.context.now_ms()
        self.health.record_clock_skew(node, ahead_ms if ahead_ms > SKEW_MAX_MS else None)
        self._newest.put(message)

    def _remove(self, node: str) -> None:
        if self._versions.pop(node, None) is not None:
            self._newest.put(NodeMetric(cluster=self.cluster, node=node, removed=True))
        self.health.keep_only(self._versions.keys())


def _find_failure(watch: ListWatch) -> str:
    """Return why objects cannot be read; empty: objects can be read, or could be until recently."""
    since_s = watch.failing_since_s
    if since_s is None or (watch.lists and time.monotonic() - since_s < FAILING_S):
        return ""
    return watch.why


def convert_node_metric(cluster: str, obj: Mapping[str, Any]) -> NodeMetric:
    """Convert a NodeMetric object of `apis/slo/v1alpha1`.

    `prodReclaimableMetric`, QoS classes, extensions and devices have no fields in the message.
    Raises ValueError (also as QuantityError or ValidationError) for an invalid value or shape.
    """
    try:
        status = obj.get("status") or {}
        collect = (obj.get("spec") or {}).get("metricCollectPolicy") or {}
        metric = status.get("nodeMetric")
        values: dict[str, Any] = {
            "cluster": cluster,
            "node": obj["metadata"]["name"],
            "updated_at_ms": parse_time_ms(status.get("updateTime")),
            "report_interval_ms": _read_interval_ms(collect.get("reportIntervalSeconds")),
            "memory_is": _MEMORY.get(collect.get("nodeMemoryCollectPolicy") or ""),
            "pods": tuple(
                {"namespace": pod["namespace"], **_read_member(pod, "podUsage")}
                for pod in status.get("podsMetric") or ()
            ),
            "host_applications": tuple(
                _read_member(application, "usage")
                for application in status.get("hostApplicationMetric") or ()
            ),
        }
        if metric is not None:
            values |= {
                "usage": _read_amounts(metric.get("nodeUsage")),
                "system_usage": _read_amounts(metric.get("systemUsage")),
                "aggregated": _read_aggregates(metric.get("aggregatedNodeUsages")),
                "aggregated_system": _read_aggregates(metric.get("aggregatedSystemUsages")),
            }
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"the object is not a NodeMetric: {error!r}") from error
    return NodeMetric.model_validate(values)


def _read_member(member: Mapping[str, Any], usage: str) -> dict[str, Any]:
    """Return name, usage and class of a pod or host application."""
    return {
        "name": member["name"],
        "usage": _read_amounts(member.get(usage)),
        "priority_class": member.get("priority", ""),
    }


def _read_amounts(resource_list: Mapping[str, Any] | None) -> dict[str, int]:
    # A quantity may be a plain number in JSON.
    amounts = (resource_list or {}).get("resources") or {}
    return parse_amounts({name: str(text) for name, text in amounts.items()})


def _read_aggregates(aggregates: Any) -> tuple[dict[str, Any], ...]:
    return tuple(
        {
            "duration_ms": parse_duration_ms(aggregate.get("duration") or "0s"),
            "usage": {
                kind: _read_amounts(usage)
                for kind, usage in (aggregate.get("usage") or {}).items()
                if kind in AGGREGATION_TYPES
            },
        }
        for aggregate in aggregates or ()
    )


def _read_interval_ms(seconds: object) -> int | None:
    """Return an interval in ms; None: not given, or ignored as in Koordinator because it is not above 0."""
    return seconds * 1_000 if isinstance(seconds, int) and 0 < seconds < 2**31 else None
