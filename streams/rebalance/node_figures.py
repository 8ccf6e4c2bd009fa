"""Figures of one node for rounds: capacity, usage, and its pods.

They are computed again when the node changes. Resources are in the order of `ReadingRules.resources`. Pods
are in ascending order of uids, or under Koordinator's rules in the order of arrival.

`differences` selects how a metric is read:

- loadstream (docs/reference/compat.md X17, X21): usage is the sum over the system, existing pods and
  host applications, and at least the usage of the whole node minus that of pods that have left lately.
  Raw allocatable is merged into allocatable. A resource is unknown if the metric does not have it, or
  if the node uses it with capacity 0.
- Koordinator: usage is the sum over the system and every pod in the metric. Raw allocatable replaces
  allocatable.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from operator import and_, attrgetter, is_

from schemas.base.capacity import parse_raw_allocatable
from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from streams.inventory.node import Node
from streams.pods.held_pod import HeldPod
from streams.rebalance.differences import Differences

#: Amounts of a node are cut off here, so that sums and differences of a few of them fit into 64 bits.
TOTAL_MAX = 2**60

Amounts = tuple[int, ...]

_get_uid = attrgetter("pod.uid")


@dataclass(frozen=True)
class ReadingRules:
    """Which resources are read from metrics, and how."""

    resources: tuple[str, ...]
    """Names in ascending order; `pods` is among them."""
    differences: Differences
    min_samples: int = 0
    """Metrics with fewer samples are ignored."""

    @cached_property
    def index(self) -> dict[str, int]:
        return {name: index for index, name in enumerate(self.resources)}

    @cached_property
    def pods_index(self) -> int:
        return self.index["pods"]


class NodePods:
    """The pods of one node as lists, one per property."""

    def __init__(self, held: Sequence[HeldPod]) -> None:
        self.held = held
        self.names = [(item.pod.namespace, item.pod.name) for item in held]
        self.prod = [item.kind.prod for item in held]
        self.bound = [item.pod.node is not None for item in held]
        """False if room is only reserved for the pod."""


class NodeFigures:
    """Figures of one node."""

    def __init__(self, name: str, reading_rules: ReadingRules) -> None:
        self.name = name
        self.node: Node | None = None
        self.state: NodeState | None = None
        self.metric: NodeMetric | None = None
        self.capacity: Amounts = (0,) * len(reading_rules.resources)
        self.usage = self.prod_usage = self.pending = self.capacity
        self.known: tuple[bool, ...] = (True,) * len(reading_rules.resources)
        """Per resource: the metric has it, or the node's capacity is 0."""
        self.updated_ms = -1
        """Time of the metric; -1 without a metric of the node."""
        self.pods = NodePods(())
        self.pod_usages: list[Mapping[str, int] | None] = []
        """Usage of each pod; None if it was not measured."""
        self.reading_rules = reading_rules
        self._held: list[HeldPod] = []

    def refresh(self, node: Node) -> bool:
        """Read the current state of a node; return whether its node-state record has changed."""
        state_changed = self.state is not node.state
        self.node = node
        if state_changed:
            self.state = node.state
            self.capacity = _read_capacity(node, self.reading_rules)
        held = list(node.held.values())
        if len(held) != len(self._held) or not all(map(is_, held, self._held)):
            self._held = held
            by_uid = self.reading_rules.differences.order_by_uid
            self.pods = NodePods(sorted(held, key=_get_uid) if by_uid else held)
        self._read_metric(node)
        return state_changed

    def _read_metric(self, node: Node) -> None:
        metric, pods, reading_rules = node.usage.metric, self.pods, self.reading_rules
        self.metric = metric
        if (
            metric is None
            or metric.usage is None
            or metric.updated_at_ms is None
            or 0 < metric.samples < reading_rules.min_samples
        ):
            self.updated_ms = -1
            self.pod_usages = [None] * len(pods.held)
            return
        self.updated_ms = metric.updated_at_ms
        resources, rules = reading_rules.resources, reading_rules.differences
        # Koordinator counts a pod with empty usage as measured (B4).
        empty_too = not rules.known_usage_only
        reported = {
            (pod.namespace, pod.name): pod.usage for pod in metric.pods if pod.usage or empty_too
        }
        self.pod_usages = [reported.get(name) for name in pods.names]
        if rules.live_usage:
            counted = list(filter(None, self.pod_usages))
            counted += [host.usage for host in metric.host_applications]
            prod_counted = list(filter(None, compress(self.pod_usages, pods.prod)))
        else:
            # All pods in the metric, including duplicates (B2).
            counted = [pod.usage for pod in metric.pods]
            names = set(compress(pods.names, pods.prod))
            prod_counted = [pod.usage for pod in metric.pods if (pod.namespace, pod.name) in names]
        usage = _sum_usages([metric.system_usage, *counted], resources)
        prod = _sum_usages(prod_counted, resources)
        usage[reading_rules.pods_index] = len(pods.held)
        prod[reading_rules.pods_index] = sum(pods.prod)
        pending = _estimate_pending(node, reading_rules)
        self.known = (True,) * len(resources)
        if rules.known_usage_only:
            self._use_node_usage(node, metric, usage, prod)
        if rules.unknown_without_capacity and 0 in self.capacity:
            # A node cannot use a resource that it does not have, so the value is not a measurement.
            self.known = tuple(
                known and (bool(capacity) or not amount)
                for known, capacity, amount in zip(self.known, self.capacity, usage, strict=True)
            )
        if rules.live_usage:
            # Reserved room is not used yet.
            reserved = len(pods.held) - sum(pods.bound)
            usage[reading_rules.pods_index] -= reserved
            pending[reading_rules.pods_index] += reserved
            if reserved:
                prod[reading_rules.pods_index] = sum(map(and_, pods.prod, pods.bound))
        self.usage, self.prod_usage, self.pending = tuple(usage), tuple(prod), tuple(pending)

    def _use_node_usage(
        self, node: Node, metric: NodeMetric, usage: list[int], prod: list[int]
    ) -> None:
        """Raise `usage` to that of the whole node minus that of gone pods, and set `known`."""
        node_usage, system = metric.usage or {}, metric.system_usage
        lacks_pods = not metric.pods and any(self.pods.bound)
        has_prod_pods = any(self.pods.prod)
        known = []
        for index, name in enumerate(self.reading_rules.resources):
            if name == "pods":
                known.append(True)
                continue
            if name in node_usage:
                remaining = node_usage[name] - sum([pod.usage.get(name, 0) for pod in node.gone])
                usage[index] = max(usage[index], remaining)
                if lacks_pods and has_prod_pods:
                    prod[index] = max(0, usage[index] - system.get(name, 0))
            known.append(
                name in node_usage
                or (name in system and not lacks_pods)
                or any(name in pod.usage for pod in metric.pods)
                or any(name in host.usage for host in metric.host_applications)
                or not self.capacity[index]
            )
        self.known = tuple(known)


def _read_capacity(node: Node, reading_rules: ReadingRules) -> Amounts:
    raw = parse_raw_allocatable({} if node.state is None else node.state.annotations)
    allocatable = node.allocatable
    if raw is not None:
        allocatable = {**allocatable, **raw} if reading_rules.differences.merged_capacity else raw
    return tuple(
        min(max(allocatable.get(name, 0), 0), TOTAL_MAX) for name in reading_rules.resources
    )


def _sum_usages(usages: Sequence[Mapping[str, int]], resources: Sequence[str]) -> list[int]:
    """Return the sum of each resource, at most `TOTAL_MAX`."""
    return [min(sum([usage.get(name, 0) for usage in usages]), TOTAL_MAX) for name in resources]


def _estimate_pending(node: Node, reading_rules: ReadingRules) -> list[int]:
    """Return the usage that recently placed pods are expected to add (A4)."""
    delta = dict(zip(node.usage.estimator.resources, node.usage.delta, strict=True))
    return [min(max(delta.get(name, 0), 0), TOTAL_MAX) for name in reading_rules.resources]
