"""Koordinator's NodeMetric objects: aggregates already, so they go to `node-metrics`.

The objects and the ConfigMap with their collect policy are listed and watched. An object that is
gone says so (`build_removed`). Of each node the newest unread object is kept. Where Koordinator is not
installed this is noted, looked for again, and nothing else happens.

Times are those of the node that computed the figures. They cannot be mended, since windows hang on
them; a time that is ahead of ours by more than the limit is reported.
"""

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Mapping
from contextlib import aclosing
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
    Newest,
    SourceContext,
    explain_error,
)
from connectors.kubernetes.sources.collect_policy import (
    NAME,
    NAMESPACE,
    CollectIntervals,
    PolicyUnreadable,
    read_config_map,
)
from connectors.kubernetes.sources.health import SKEW_MAX_MS, SourceFailed
from connectors.kubernetes.sources.node_metric import build_removed, convert_node_metric
from connectors.kubernetes.sources.settings import Interval, SourceSettings
from schemas.messages.metrics import NodeMetric

NODE_METRICS = "/apis/slo.koordinator.sh/v1alpha1/nodemetrics"
#: From one read to the next, in seconds.
READ_S = 0.25
#: Objects that were read once are reported as failing after this time without an answer, in seconds:
#: a watch that ends is opened again within some.
FAILING_S = 10.0


class KoordinatorSettings(SourceSettings):
    """Where the collect policy is."""

    interval_ms: Interval = Field(60_000, alias="interval")
    """How often the agent reports; a node may be silent for three intervals."""
    config_namespace: str = NAMESPACE
    """Namespace of the ConfigMap with its collect policy."""
    config_name: str = NAME
    """Name of that ConfigMap; another one needs the right to read it."""


class Koordinator(KubernetesSource[KoordinatorSettings]):
    """Koordinator's own aggregates of nodes, as koordlet reports them."""

    name: ClassVar[str] = "koordinator"
    topic: ClassVar[Literal["node-usage", "node-metrics"]] = "node-metrics"
    settings_class: ClassVar[type[SourceSettings]] = KoordinatorSettings
    needs_pods: ClassVar[bool] = False

    def __init__(self, settings: KoordinatorSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self.interval_s = READ_S
        self._newest: Newest[NodeMetric] = Newest(self.health)
        self._versions: dict[str, str] = {}
        """Version of the newest object of each node."""
        self._ahead_ms: dict[str, int] = {}
        """By how much the newest metric of a node is ahead of our clock, where it is by too much."""
        self._intervals = CollectIntervals()
        config_maps = f"/api/v1/namespaces/{settings.config_namespace}/configmaps"
        self._metrics = ListWatch(context.server, NODE_METRICS)
        self._config = ListWatch(
            context.server,
            config_maps,
            selectors={"fieldSelector": f"metadata.name={settings.config_name}"},
        )

    async def read(self) -> AsyncIterator[NodeMetric]:
        """The objects that changed since the last call; raises SourceFailed where none can."""
        async for message in self._newest.read():
            self.health.counts["samples"] += 1
            yield message
        policy = _failing(self._config)
        unread = f"the ConfigMap with the collect policy cannot be read: {policy}"
        self.health.set_note("config_unread", unread if policy else None)
        why = _failing(self._metrics)
        if not why:
            return
        if why.startswith("404"):
            note = "Koordinator's NodeMetric is not installed in this cluster"
            raise SourceFailed("not_installed", f"{note} ({NODE_METRICS})")
        raise SourceFailed("forbidden" if why.startswith("403") else "unreachable", why)

    async def run(self) -> None:
        """Follow objects and policy until it is cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(_follow(self._config, self.take_config))
            group.create_task(_follow(self._metrics, self.take_metrics))

    async def take_metrics(self, events: AsyncGenerator[Event, None]) -> None:
        """Take in what a list and watch of NodeMetric objects says."""
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
        """Take in what a list and watch of the ConfigMap says."""
        there = True
        async for event in events:
            match event:
                case Begun():
                    there = False
                case Present(found) | Changed(found):
                    there = True
                    self._set_config(found)
                case Ended() if not there:
                    self._forget_config()
                case Deleted():
                    self._forget_config()

    def _forget_config(self) -> None:
        """There is no ConfigMap: nothing that it said holds.

        Nothing is wrong with that, unless the settings name one.
        """
        self._intervals = CollectIntervals()
        settings = self.settings
        named = settings.model_fields_set & {"config_namespace", "config_name"}
        missing = f"there is no ConfigMap {settings.config_namespace}/{settings.config_name}"
        self.health.set_note("config", missing if named else None)

    def _set_config(self, found: Mapping[str, Any]) -> None:
        try:
            self._intervals = read_config_map(found)
        except PolicyUnreadable as error:
            self.health.set_note("config", f"{error}; what it said before holds")
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
            return  # a list says again what is known
        self._versions[node] = version
        self.health.record_success(node, message.updated_at_ms)
        self._note_clock(node, (message.updated_at_ms or 0) - self.context.now_ms())
        self._newest.put(message)

    def _remove(self, node: str) -> None:
        if self._versions.pop(node, None) is not None:
            self._newest.put(build_removed(self.cluster, node))
        self.health.keep_only(self._versions.keys())
        self._note_clock(node, 0)

    def _note_clock(self, node: str, ahead_ms: int) -> None:
        """Say which metric is ahead of our clock, the first of them, as long as one is."""
        if ahead_ms > SKEW_MAX_MS:
            self._ahead_ms[node] = ahead_ms
            self.health.record_clock_skew(node, ahead_ms, from_receipt=False)
        elif self._ahead_ms.pop(node, None) is None:
            return
        elif node in self._versions:
            self.health.record_clock_skew(node, 0, from_receipt=False)
        note = None
        for first, by_ms in self._ahead_ms.items():
            note = f"the metric of node {first} is {by_ms} ms ahead of our clock"
            break
        self.health.set_note("clock", note)


def _failing(watch: ListWatch) -> str:
    """Why objects cannot be read; empty: they can, or could a moment ago."""
    since_s = watch.failing_since_s
    if since_s is None or (watch.lists and time.monotonic() - since_s < FAILING_S):
        return ""
    return watch.why


async def _follow(watch: ListWatch, take: Any) -> None:
    async with aclosing(watch.events()) as events:
        await take(events)
