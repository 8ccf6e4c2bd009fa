"""Which of several sources speaks for a node, so that nothing is counted twice.

Sources stand in the order of their list. Of each node one source speaks at a time: the first that
has a fresh sample of the node's CPU and memory; from then on it may lack one of them. Samples of the others are held back, and fill in, one resource at a time and
pod by pod, what the speaker did not measure: GPUs of Prometheus beside a kubelet's CPU. So each
figure is of exactly one source. When the speaker has been silent for longer than its `fresh_ms`,
the next one speaks. Times of a node never go back, whichever source speaks.

Aggregates (`node-metrics`) take part: of a node for which Koordinator speaks no samples are sent,
and the other way round, since both end up as metrics of that node. Those without figures, and those
of longer ago than a speaker may be silent, speak for no node for which another source could.
Nothing is filled into aggregates.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from connectors.kubernetes.sources.health import SKEW_MAX_MS
from schemas.messages.metrics import NodeMetric
from schemas.messages.usage import (
    HOST_APPLICATIONS_PER_SAMPLE_MAX,
    PODS_PER_SAMPLE_MAX,
    HostApplicationUsage,
    NodeUsage,
    PodUsage,
)

#: A sample that speaks for a node has these.
REQUIRED = frozenset(("cpu", "memory"))
#: Most resources that one map of a message holds.
_RESOURCES_MAX = 64


@dataclass(slots=True)
class _Node:
    speaker: int | None = None
    spoke_at_ms: int = 0
    sampled_at_ms: int = 0
    """Time of the newest message that was let through."""
    held: dict[int, tuple[NodeUsage, int]] = field(default_factory=dict)
    """Newest sample of each source that does not speak, and when it came."""


class Precedence:
    """Lets through the messages of each node's speaker."""

    def __init__(self, fresh_ms: Sequence[int], count: Callable[[int, str], None]) -> None:
        """`fresh_ms` of each source, in their order; `count` counts an outcome for a source."""
        self._fresh_ms = fresh_ms
        self._count = count
        self._nodes: dict[str, _Node] = {}

    def offer(
        self, source: int, message: NodeUsage | NodeMetric, now_ms: int
    ) -> NodeUsage | NodeMetric | None:
        """What is to be sent of a source's message; none: nothing."""
        node = self._nodes.get(message.node)
        if node is None:
            node = self._nodes[message.node] = _Node()
        if isinstance(message, NodeMetric) and message.removed:
            return self._removed(source, node, message)
        if not self._speaks(source, node, message, now_ms):
            if isinstance(message, NodeUsage):
                node.held[source] = (message, now_ms)
            self._count(source, "held_back")
            return None
        if node.speaker != source:
            self._count(source, "took_over")
        node.speaker = source
        if isinstance(message, NodeUsage) or self._is_fresh(source, message, now_ms):
            node.spoke_at_ms = now_ms
        node.held.pop(source, None)
        at_ms = message.sampled_at_ms if isinstance(message, NodeUsage) else message.updated_at_ms
        if at_ms is not None:
            if at_ms <= node.sampled_at_ms and isinstance(message, NodeUsage):
                self._count(source, "not_newer")
                return None
            # Aggregates keep a time that is ahead; others that are in time must follow on them.
            node.sampled_at_ms = max(min(at_ms, now_ms + SKEW_MAX_MS), node.sampled_at_ms)
        if isinstance(message, NodeMetric):
            return message
        return self._filled(source, node, message, now_ms)

    def keep_only(self, nodes: Iterable[str]) -> None:
        """Forget the nodes that are no longer there."""
        for gone in self._nodes.keys() - set(nodes):
            del self._nodes[gone]

    def _speaks(
        self, source: int, node: _Node, message: NodeUsage | NodeMetric, now_ms: int
    ) -> bool:
        complete = isinstance(message, NodeMetric) or message.usage.keys() >= REQUIRED
        if not complete and node.speaker != source:
            return False
        if isinstance(message, NodeMetric) and not self._is_fresh(source, message, now_ms):
            return node.speaker == source or len(self._fresh_ms) == 1
        speaker = node.speaker
        if speaker is None or source <= speaker:
            return True
        return now_ms - node.spoke_at_ms > self._fresh_ms[speaker]

    def _is_fresh(self, source: int, message: NodeMetric, now_ms: int) -> bool:
        """It has figures, and not of long ago: agents that have ended leave their objects behind."""
        at_ms = message.updated_at_ms
        return (
            bool(message.usage) and at_ms is not None and now_ms - at_ms <= self._fresh_ms[source]
        )

    def _removed(self, source: int, node: _Node, message: NodeMetric) -> NodeMetric | None:
        if node.speaker != source:
            return None
        node.speaker = None
        return message

    def _filled(self, source: int, node: _Node, message: NodeUsage, now_ms: int) -> NodeUsage:
        fresh = [
            held
            for other, (held, at_ms) in sorted(node.held.items())
            if now_ms - at_ms <= self._fresh_ms[other]
        ]
        if not fresh:
            return message
        filled = message
        for held in fresh:
            filled = _fill(filled, held)
        if filled is not message:
            self._count(source, "filled_in")
        return filled


def _fill(message: NodeUsage, other: NodeUsage) -> NodeUsage:
    """The message with what only the other one measured."""
    changes: dict[str, Any] = {}
    if (usage := _more(message.usage, other.usage)) is not message.usage:
        changes["usage"] = usage
    uids = {(pod.namespace, pod.name): pod.uid for pod in message.pods}
    pods = _members(
        {pod.uid: pod for pod in message.pods},
        {
            pod.uid: pod
            for pod in other.pods
            if uids.get((pod.namespace, pod.name), pod.uid) == pod.uid
        },
    )
    if pods is not None:
        changes["pods"] = pods[:PODS_PER_SAMPLE_MAX]
    applications = _members(
        {each.name: each for each in message.host_applications},
        {each.name: each for each in other.host_applications},
    )
    if applications is not None:
        changes["host_applications"] = applications[:HOST_APPLICATIONS_PER_SAMPLE_MAX]
    return message.model_copy(update=changes) if changes else message


def _members(
    known: Mapping[str, PodUsage | HostApplicationUsage],
    others: Mapping[str, PodUsage | HostApplicationUsage],
) -> tuple[PodUsage | HostApplicationUsage, ...] | None:
    """Pods or host applications with what only the others measured; none: nothing."""
    changed = False
    merged = dict(known)
    for name, other in others.items():
        mine = known.get(name)
        if mine is None:
            merged[name], changed = other, True
        elif (usage := _more(mine.usage, other.usage)) is not mine.usage:
            merged[name], changed = mine.model_copy(update={"usage": usage}), True
    return tuple(merged.values()) if changed else None


def _more(usage: dict[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Amounts with those that only the other one has; the same object: there are none."""
    missing = [name for name in other if name not in usage][: _RESOURCES_MAX - len(usage)]
    return {**usage, **{name: other[name] for name in missing}} if missing else usage
