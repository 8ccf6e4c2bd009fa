"""Chooses the source that reports a node, so that nothing is counted twice.

Sources have the order of their list. One source at a time reports a node: the first source with a fresh
sample of the node's CPU and memory. Later samples of this source may lack CPU or memory. Samples of other
sources are held back; they add resources and pods that the reporting source did not measure, such as GPUs
from Prometheus to CPU from a kubelet. So each value comes from exactly one source. If the reporting source
is silent for longer than its `fresh_ms`, the next source reports. Times of a node never go back.

The same applies to aggregates (`node-metrics`): while Koordinator reports a node, no samples of the node
are sent, and vice versa, because both become metrics of this node. Aggregates without values, or older
than `fresh_ms`, do not replace another source. Nothing is added to aggregates.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice

from connectors.kubernetes.sources.health import SKEW_MAX_MS
from schemas.base.message import RESOURCES_MAX
from schemas.messages.metrics import NodeMetric
from schemas.messages.usage import PODS_PER_SAMPLE_MAX, NodeUsage

#: Resources of a sample whose source can start to report a node.
REQUIRED = frozenset(("cpu", "memory"))


@dataclass(slots=True)
class _Node:
    reporting: int | None = None
    """The source that reports this node."""
    reported_at_ms: int = 0
    sampled_at_ms: int = 0
    """Time of the newest message that was sent."""
    held: dict[int, tuple[NodeUsage, int]] = field(default_factory=dict)
    """Newest sample of each other source, and when it arrived."""


class Precedence:
    """Passes the messages of each node's reporting source."""

    def __init__(self, fresh_ms: Sequence[int], count: Callable[[int, str], None]) -> None:
        """`fresh_ms` of each source, in order; `count` counts an event of a source."""
        self._fresh_ms = fresh_ms
        self._count = count
        self._nodes: dict[str, _Node] = {}

    def offer(
        self, source: int, message: NodeUsage | NodeMetric, now_ms: int
    ) -> NodeUsage | NodeMetric | None:
        """Return the message to send for a source's message; None: nothing is sent."""
        node = self._nodes.get(message.node)
        if node is None:
            node = self._nodes[message.node] = _Node()
        if isinstance(message, NodeMetric) and message.removed:
            if node.reporting != source:
                return None
            node.reporting = None
            return message
        if not self._may_report(source, node, message, now_ms):
            if isinstance(message, NodeUsage):
                node.held[source] = (message, now_ms)
            self._count(source, "held_back")
            return None
        if node.reporting != source:
            self._count(source, "took_over")
        node.reporting = source
        if isinstance(message, NodeUsage) or self._is_fresh(source, message, now_ms):
            node.reported_at_ms = now_ms
        node.held.pop(source, None)
        at_ms = message.sampled_at_ms if isinstance(message, NodeUsage) else message.updated_at_ms
        if at_ms is not None:
            if at_ms <= node.sampled_at_ms and isinstance(message, NodeUsage):
                self._count(source, "not_newer")
                return None
            # Aggregates keep a time that is ahead; later messages with a correct time must still pass.
            node.sampled_at_ms = max(min(at_ms, now_ms + SKEW_MAX_MS), node.sampled_at_ms)
        if isinstance(message, NodeMetric):
            return message
        return self._fill_gaps(source, node, message, now_ms)

    def keep_only(self, nodes: Iterable[str]) -> None:
        """Forget all other nodes."""
        for node in self._nodes.keys() - set(nodes):
            del self._nodes[node]

    def _may_report(
        self, source: int, node: _Node, message: NodeUsage | NodeMetric, now_ms: int
    ) -> bool:
        complete = isinstance(message, NodeMetric) or message.usage.keys() >= REQUIRED
        if not complete and node.reporting != source:
            return False
        if isinstance(message, NodeMetric) and not self._is_fresh(source, message, now_ms):
            return node.reporting == source or len(self._fresh_ms) == 1
        if node.reporting is None or source <= node.reporting:
            return True
        return now_ms - node.reported_at_ms > self._fresh_ms[node.reporting]

    def _is_fresh(self, source: int, message: NodeMetric, now_ms: int) -> bool:
        """Tell whether an aggregate has recent values; objects of stopped agents remain."""
        at_ms = message.updated_at_ms
        return (
            bool(message.usage) and at_ms is not None and now_ms - at_ms <= self._fresh_ms[source]
        )

    def _fill_gaps(self, source: int, node: _Node, message: NodeUsage, now_ms: int) -> NodeUsage:
        filled = message
        for other, (held, at_ms) in sorted(node.held.items()):
            if now_ms - at_ms <= self._fresh_ms[other]:
                filled = _fill(filled, held)
        if filled != message:
            self._count(source, "filled_in")
        return filled


def _fill(message: NodeUsage, other: NodeUsage) -> NodeUsage:
    """Add the resources and pods that only the other message has."""
    names = {(pod.namespace, pod.name) for pod in message.pods}
    pods = {pod.uid: pod for pod in message.pods}
    for found in other.pods:
        pod = pods.get(found.uid)
        if pod is None:
            if (found.namespace, found.name) not in names:
                pods[found.uid] = found
        elif found.usage.keys() - pod.usage.keys():
            usage = _add_missing(pod.usage, found.usage)
            pods[pod.uid] = pod.model_copy(update={"usage": usage})
    changes = {
        "usage": _add_missing(message.usage, other.usage),
        "pods": tuple(pods.values())[:PODS_PER_SAMPLE_MAX],
    }
    return message.model_copy(update=changes)


def _add_missing(usage: Mapping[str, int], other: Mapping[str, int]) -> dict[str, int]:
    """Add the amounts that only the other map has."""
    return dict(islice({**usage, **other, **usage}.items(), RESOURCES_MAX))
