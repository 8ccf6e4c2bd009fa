"""The API `metrics.k8s.io` (metrics-server or an adapter), which `kubectl top` shows.

Nodes and pods are listed once per interval. Each entry has a time, and the length of the window before
this time, over which CPU is averaged. Each node with a newer time gets a message. The message contains the
pods that the directory has on the node, if the window began after the pod's creation; so a pod never
gets the figures of an earlier pod with its name. The figures are rarely newer than 15 s.
"""

from collections.abc import AsyncIterator, Mapping
from typing import Any, ClassVar

from pydantic import Field

from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable
from connectors.kubernetes.api.times import parse_time_ms
from connectors.kubernetes.sources.base import KubernetesSource, SourceContext, explain_error
from connectors.kubernetes.sources.directory import PodName
from connectors.kubernetes.sources.health import SourceFailed
from connectors.kubernetes.sources.http import AnswerTimes, choose_sample_time, convert_server_error
from connectors.kubernetes.sources.settings import Interval, SourceSettings
from schemas.base.quantities import QuantityError, parse_nanos, round_amount
from schemas.messages.usage import PODS_PER_SAMPLE_MAX, NodeUsage
from schemas.policy.durations import parse_duration_ms

GROUP = "/apis/metrics.k8s.io/v1beta1"
#: Most unreadable entries in one note.
_SHOWN_MAX = 3


class MetricsApiSettings(SourceSettings):
    """Settings of the metrics API, with a longer default interval."""

    interval_ms: Interval = Field(30_000, alias="interval")
    """Time between two measurements of a node. A metrics-server has new figures after 15 to 60
    s."""


class MetricsApi(KubernetesSource[MetricsApiSettings]):
    """CPU and memory of nodes and pods from `metrics.k8s.io`."""

    name: ClassVar[str] = "metrics_api"
    settings_class: ClassVar[type[SourceSettings]] = MetricsApiSettings

    def __init__(self, settings: MetricsApiSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self._newest: dict[str, tuple[int, int]] = {}
        """Time of each node's newest message, and of the entry behind this message."""

    async def read(self) -> AsyncIterator[NodeUsage]:
        """Yield a sample of each node with a new measurement; raises SourceFailed."""
        self.require_listed()
        nodes, pods = await self._list("nodes"), await self._list("pods")
        if not nodes:
            raise SourceFailed("incomplete", "the metrics API lists no node")
        self.health.record_success()
        self.health.keep_only(self.directory.nodes.keys())
        for node in self._newest.keys() - self.directory.nodes.keys():
            del self._newest[node]
        bad: list[str] = []
        pod_entries = {_get_name(entry): entry for entry in pods}
        unlisted = dict.fromkeys(self.directory.nodes)
        for entry in nodes:
            node = entry["metadata"]["name"]
            if node not in self.directory.nodes:
                continue
            unlisted.pop(node, None)
            try:
                message = self._build_sample(node, entry, pod_entries, bad)
            except (KeyError, TypeError, ValueError) as error:
                why = f"the entry of the node cannot be read: {explain_error(error, NodeUsage)}"
                self.health.record_failure(SourceFailed("unreadable", why), node)
                continue
            self.health.record_success(node)
            if message is not None:
                self.health.counts["samples"] += 1
                yield message
        for node in unlisted:
            self.health.record_failure(
                SourceFailed("incomplete", "the list has no entry for this node"), node
            )
        self.health.counts["pods_unreadable"] += len(bad)
        shown = "; ".join(bad[:_SHOWN_MAX])
        self.health.set_note("pods", f"entries of pods cannot be read: {shown}" if bad else None)

    async def _list(self, kind: str) -> list[Any]:
        try:
            answer = await self.context.server.get(f"{GROUP}/{kind}")
            items = answer["items"]
        except (ApiError, ApiUnreachable, AccessError) as error:
            raise convert_server_error(error) from error
        except (KeyError, TypeError) as error:
            raise SourceFailed("unreadable", f"{GROUP}/{kind} is not a list: {error!r}") from error
        return items or []

    def _build_sample(
        self, node: str, entry: Mapping[str, Any], pods: Mapping[PodName, Any], bad: list[str]
    ) -> NodeUsage | None:
        stamped_ms, window_ms = _parse_times(entry)
        sampled_at_ms, read_ms = self._newest.get(node, (0, 0))
        if stamped_ms == read_ms:
            return None
        answered_at_ms = self.context.now_ms()
        # The stamp is from the node's clock; the answer's `Date` may be from another clock.
        at_ms, skew_ms = choose_sample_time(
            AnswerTimes(answered_at_ms, answered_at_ms, None), stamped_ms
        )
        if at_ms <= sampled_at_ms:
            return None
        self.health.record_clock_skew(node, skew_ms)
        members = []
        for name, pod in self.directory.pods_on(node).pods.items():
            if name not in pods:
                continue
            try:
                pod_at_ms, pod_window_ms = _parse_times(pods[name])
                if pod_at_ms - pod_window_ms < pod.created_at_ms:
                    continue
                usage = _add_up(container["usage"] for container in pods[name]["containers"])
            except (KeyError, TypeError, ValueError) as error:
                bad.append(f"{'/'.join(name)}: {error!r}")
                continue
            if usage:
                identity = {"namespace": name[0], "name": name[1], "uid": pod.uid}
                members.append({**identity, "usage": usage})
        message = NodeUsage.model_validate(
            {
                "cluster": self.cluster,
                "node": node,
                "sampled_at_ms": at_ms,
                "interval_ms": window_ms,
                "usage": _add_up([entry["usage"]]),
                "pods": tuple(members[:PODS_PER_SAMPLE_MAX]),
            }
        )
        self._newest[node] = (at_ms, stamped_ms)
        return message


def _get_name(pod: Mapping[str, Any]) -> PodName:
    return pod["metadata"]["namespace"], pod["metadata"]["name"]


def _parse_times(entry: Mapping[str, Any]) -> tuple[int, int]:
    """Return time and window in ms; raises ValueError."""
    at_ms = parse_time_ms(entry["timestamp"])
    if at_ms is None:
        raise ValueError(
            f"found {entry['timestamp']!r}; expected a time such as 2026-03-01T12:00:00Z"
        )
    return at_ms, parse_duration_ms(entry["window"])


def _add_up(all_usage: Any) -> dict[str, int]:
    """Add up the resources that all lists have; raises QuantityError."""
    # An empty list is written as null.
    lists = [
        {name: parse_nanos(text) for name, text in (usage or {}).items()} for usage in all_usage
    ]
    shared = set.intersection(*map(set, lists)) if lists else set()
    if any(amounts[name] < 0 for amounts in lists for name in shared):
        raise QuantityError("found an amount below 0")
    return {
        name: round_amount(name, sum(amounts[name] for amounts in lists)) for name in sorted(shared)
    }
