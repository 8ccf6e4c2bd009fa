"""Kubelets' `/stats/summary`: rates and memory of the node and its pods, with the pods' uids.

The kubelet computes the rates (`usageNanoCores`, over about 10 s). Memory has several readings:

    workingSetBytes  ─▶ memory
    rssBytes         ─▶ usage_without_page_cache_bytes; 0 if the kernel does not count it
    usageBytes       ─▶ usage_with_page_cache_bytes

The answer is ten times as long as that of `/metrics/resource`. It is for clusters whose kubelets have
nothing else, and for these readings and ephemeral storage. A message always has CPU and memory of the
node.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar

import orjson

from connectors.kubernetes.api.times import parse_time_ms
from connectors.kubernetes.sources.base import SourceContext
from connectors.kubernetes.sources.clock_skew import choose_sample_time
from connectors.kubernetes.sources.health import SourceFailed
from connectors.kubernetes.sources.http import HttpAnswer
from connectors.kubernetes.sources.kubelet.source import KubeletSettings, KubeletSource
from schemas.base.message import AMOUNT_MAX
from schemas.messages.usage import PODS_PER_SAMPLE_MAX, NodeUsage

_READINGS = {
    "usage_without_page_cache_bytes": "rssBytes",
    "usage_with_page_cache_bytes": "usageBytes",
}


class KubeletSummary(KubeletSource):
    """CPU, memory and ephemeral storage of nodes and pods from kubelets' `/stats/summary`."""

    name: ClassVar[str] = "kubelet_summary"
    needs_pods: ClassVar[bool] = False
    path: ClassVar[str] = "/stats/summary"

    def __init__(self, settings: KubeletSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self._sampled_at_ms: dict[str, int] = {}

    def keep_only(self, nodes: Iterable[str]) -> None:
        """Forget the times of all other nodes."""
        for gone in self._sampled_at_ms.keys() - set(nodes):
            del self._sampled_at_ms[gone]

    def build_sample(self, node: str, answer: HttpAnswer) -> NodeUsage | None:
        """Return the sample of an answer; None: it is not newer than the last one."""
        try:
            summary = orjson.loads(answer.body)
            found, pods = summary["node"], summary.get("pods") or ()
            usage = self._amounts(found, "fs")
            at_ms, skew_ms = choose_sample_time(
                answer.times, parse_time_ms((found.get("cpu") or {}).get("time"))
            )
            members = [self._pod(pod) for pod in pods[:PODS_PER_SAMPLE_MAX]]
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError) as error:
            start = answer.body[:80]
            why = f"the answer is not a summary: {error!r}; it begins with {start!r}"
            raise SourceFailed("unreadable", why) from error
        if not usage.keys() >= {"cpu", "memory"}:
            raise SourceFailed("incomplete", "the answer lacks the node's CPU or memory")
        self.health.record_clock_skew(node, skew_ms)
        if at_ms <= self._sampled_at_ms.get(node, 0):
            return None
        message = NodeUsage.model_validate(
            {
                "cluster": self.cluster,
                "node": node,
                "sampled_at_ms": at_ms,
                "usage": usage,
                "memory": _readings(found),
                "pods": tuple(pod for pod in members if pod["usage"]),
            }
        )
        self._sampled_at_ms[node] = at_ms
        return message

    def _pod(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        who = pod["podRef"]
        return {
            "namespace": who["namespace"],
            "name": who["name"],
            "uid": who["uid"],
            "usage": self._amounts(pod, "ephemeral-storage"),
            "memory": _readings(pod),
        }

    def _amounts(self, found: Mapping[str, Any], storage: str) -> dict[str, int]:
        nanos = _amount(found.get("cpu"), "usageNanoCores")
        amounts = {
            "cpu": None if nanos is None else (nanos + 500_000) // 1_000_000,
            "memory": _amount(found.get("memory"), "workingSetBytes"),
        }
        for resource in self.settings.extra_resources:
            if resource == "swap":
                amounts[resource] = _amount(found.get("swap"), "swapUsageBytes")
            else:
                amounts[resource] = _amount(found.get(storage), "usedBytes")
        return {name: amount for name, amount in amounts.items() if amount is not None}


def _readings(found: Mapping[str, Any]) -> dict[str, int] | None:
    memory = found.get("memory")
    readings = {
        reading: amount
        for reading, field in _READINGS.items()
        if (amount := _amount(memory, field))  # 0: not counted
    }
    return readings or None


def _amount(figures: Mapping[str, Any] | None, field: str) -> int | None:
    """An amount of the answer; none: it was not measured, or cannot be one."""
    value = figures.get(field) if figures else None
    if not isinstance(value, int) or not 0 <= value <= AMOUNT_MAX:
        return None
    return value
