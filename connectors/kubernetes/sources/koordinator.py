"""Koordinator's NodeMetric objects, which are aggregates and go to `node-metrics`.

The objects and the ConfigMap with their collect policy are listed and watched. A deleted object becomes a
message with `removed`. The newest unread object of each node is kept. If Koordinator is not installed,
this is noted and checked again.

Times are those of the node that computed the figures. They are not corrected, because windows depend on
them; a time that is too far ahead of ours is reported.
"""

import asyncio
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
from connectors.kubernetes.sources.base import (
    KubernetesSource,
    NewestMessages,
    SourceContext,
    explain_error,
)
from connectors.kubernetes.sources.health import SKEW_MAX_MS, SourceFailed
from connectors.kubernetes.sources.koordinator_objects import (
    NAME,
    NAMESPACE,
    CollectIntervals,
    PolicyUnreadable,
    build_removed,
    convert_node_metric,
    read_config_map,
)
from connectors.kubernetes.sources.settings import Interval, SourceSettings
from schemas.messages.metrics import NodeMetric

NODE_METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
#: Time between two reads, in seconds.
READ_S = 0.25
#: A failure after a complete list is reported after this time, in seconds, because a watch that ends is
#: opened again within seconds.
FAILING_S = 10.0


class KoordinatorSettings(SourceSettings):
    """Location of the collect policy."""

    interval_ms: Interval = Field(60_000, alias="interval")
    """How often the agent reports; a node may be silent for three intervals."""
    config_namespace: str = NAMESPACE
    """Namespace of the ConfigMap with the collect policy."""
    config_name: str = NAME
    """Name of this ConfigMap; any other name needs permission to read it."""


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
        self._intervals = CollectIntervals()
        config_maps = f"/api/v1/namespaces/{settings.config_namespace}/configmaps"
        self._metrics = ListWatch(context.server, NODE_METRICS)
        self._config = ListWatch(
            context.server,
            config_maps,
            selectors={"fieldSelector": f"metadata.name={settings.config_name}"},
        )

    async def read(self) -> AsyncIterator[NodeMetric]:
        """Yield the objects that changed since the last call; raises SourceFailed."""
        async for message in self._newest.read():
            self.health.counts["samples"] += 1
            yield message
        why = _find_failure(self._config)
        note = f"the ConfigMap with the collect policy cannot be read: {why}"
        self.health.set_note("config_unread", note if why else None)
        why = _find_failure(self._metrics)
        if not why:
            return
        if why.startswith("404"):
            note = "Koordinator's NodeMetric is not installed in this cluster"
            raise SourceFailed("not_installed", f"{note} ({NODE_METRICS})")
        raise SourceFailed("forbidden" if why.startswith("403") else "unreachable", why)

    async def run(self) -> None:
        """Follow objects and policy until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._config.follow(self.take_config))
            group.create_task(self._metrics.follow(self.take_metrics))

    async def take_metrics(self, events: AsyncGenerator[Event, None]) -> None:
        """Apply the events of a list and watch of NodeMetric objects."""
        listed: set[str] | None = None
        async for event in events:
            match event:
                case Begun():
                    listed = set()
                case Present(found) | Changed(found):
                    if listed is not None:
                        listed.add(found["metadata"]["name"])
                    self._take(found)
                case Ended() if listed is not None:
                    for gone in self._versions.keys() - listed:
                        self._remove(gone)
                    listed = None
                case Deleted(found):
                    self._remove(found["metadata"]["name"])

    async def take_config(self, events: AsyncGenerator[Event, None]) -> None:
        """Apply the events of a list and watch of the ConfigMap."""
        exists = True
        async for event in events:
            match event:
                case Begun():
                    exists = False
                case Present(found) | Changed(found):
                    exists = True
                    self._set_config(found)
                case Ended() if not exists:
                    self._forget_config()
                case Deleted():
                    self._forget_config()

    def _forget_config(self) -> None:
        """Drop the policy of a missing ConfigMap, which is a problem only if the settings name it."""
        self._intervals = CollectIntervals()
        settings = self.settings
        named = settings.model_fields_set & {"config_namespace", "config_name"}
        missing = f"there is no ConfigMap {settings.config_namespace}/{settings.config_name}"
        self.health.set_note("config", missing if named else None)

    def _set_config(self, found: Mapping[str, Any]) -> None:
        try:
            self._intervals = read_config_map(found)
        except PolicyUnreadable as error:
            self.health.set_note("config", f"{error}; its previous policy stays in force")
        else:
            self.health.set_note("config", None)

    def _take(self, found: Mapping[str, Any]) -> None:
        node = found["metadata"]["name"]
        known = self.directory.nodes.get(node)
        try:
            report_ms = self._intervals.report_ms(
                found.get("spec") or {}, {} if known is None else known.labels
            )
            message = convert_node_metric(self.cluster, found, report_ms)
        except (ValueError, AttributeError) as error:
            why = f"NodeMetric {node}: {explain_error(error, NodeMetric)}"
            self.health.record_failure(SourceFailed("unreadable", why), node)
            return
        version = found["metadata"]["resourceVersion"]
        if self._versions.get(node) == version:
            return  # unchanged in a new list
        self._versions[node] = version
        self.health.record_success(node, message.updated_at_ms)
        ahead_ms = (message.updated_at_ms or 0) - self.context.now_ms()
        self.health.record_clock_skew(node, ahead_ms if ahead_ms > SKEW_MAX_MS else None)
        self._newest.put(message)

    def _remove(self, node: str) -> None:
        if self._versions.pop(node, None) is not None:
            self._newest.put(build_removed(self.cluster, node))
        self.health.keep_only(self._versions.keys())


def _find_failure(watch: ListWatch) -> str:
    """Return why objects cannot be read; empty: they can, or could until recently."""
    since_s = watch.failing_since_s
    if since_s is None or (watch.lists and time.monotonic() - since_s < FAILING_S):
        return ""
    return watch.why
