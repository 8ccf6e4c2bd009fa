"""Figures of one node for rounds: capacity, usage, and its pods in packed arrays.

They are computed again when the node changes. Arrays over pods are computed on first use, because only hot
nodes need them. Resources are in the order of `ReadingRules.resources`. Pods are in ascending order of uids,
or under Koordinator's rules in the order of arrival.

`differences` selects how a metric is read:

- loadstream (docs/reference/upstream.md X17, X21): usage is the sum over the system, existing pods and
  host applications, and at least the usage of the whole node minus that of pods that have left lately.
  Raw allocatable is merged into allocatable. A resource is unknown if the metric does not have it, or
  if the node uses it with capacity 0.
- Koordinator: usage is the sum over the system and every pod in the metric. Raw allocatable replaces
  allocatable.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from operator import and_

import numpy as np

from schemas.base.capacity import parse_raw_allocatable
from schemas.base.message import AMOUNT_MAX
from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from streams.inventory.node import Node
from streams.rebalance.differences import Differences
from streams.rebalance.packed_pods import PackedPods
from streams.stage.arrays import IntArray

#: Amounts of a node are cut off here, so that sums and differences of a few of them fit into 64 bits.
TOTAL_MAX = 2**60
#: Usage of a pod that was not measured.
UNMEASURED = -1

Amounts = tuple[int, ...]


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


_NO_USAGE: Mapping[str, int] = {}


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
        self.pods = PackedPods(())
        self.reading_rules = reading_rules
        self._cached_pods: tuple[IntArray, list[bool]] | None = None

    @property
    def pod_usage(self) -> IntArray:
        """Usage of each pod, shape (pods, resources), or `UNMEASURED`."""
        return self._read_pods()[0]

    @property
    def in_metric(self) -> list[bool]:
        """Whether each pod is in the metric, even if it lacks some resources there."""
        return self._read_pods()[1]

    def refresh(self, node: Node) -> bool:
        """Read the current state of a node; return whether its node-state record has changed."""
        state_changed = self.state is not node.state
        self.node = node
        if state_changed:
            self.state = node.state
            self.capacity = _read_capacity(node, self.reading_rules)
        held = list(node.held.values())
        self.pods = self.pods.update(held, by_uid=self.reading_rules.differences.order_by_uid)
        self.metric = node.usage.metric
        self._cached_pods = None
        self._read_metric(node)
        return state_changed

    def _read_metric(self, node: Node) -> None:
        metric, pods, reading_rules = self.metric, self.pods, self.reading_rules
        if (
            metric is None
            or metric.usage is None
            or metric.updated_at_ms is None
            or 0 < metric.samples < reading_rules.min_samples
        ):
            self.updated_ms = -1
            return
        self.updated_ms = metric.updated_at_ms
        self.known = (True,) * len(reading_rules.resources)
        resources = reading_rules.resources
        live, prod = _sum_live_usage(node, pods, resources)
        rules = reading_rules.differences
        if not rules.live_usage:
            # All pods in the metric, including duplicates (B2.1).
            used = _sum_usages((pod.usage for pod in metric.pods), resources)
            names = set(compress(pods.names, pods.prod))
            prod_pods = (pod for pod in metric.pods if (pod.namespace, pod.name) in names)
            prod_used = _sum_usages((pod.usage for pod in prod_pods), resources)
            prod = [min(amount, TOTAL_MAX) for amount in prod_used]
        elif metric.host_applications:
            hosts = _sum_usages((host.usage for host in metric.host_applications), resources)
            used = [a + b for a, b in zip(live, hosts, strict=True)]
        else:
            used = live
        system = metric.system_usage
        usage = [
            min(system.get(name, 0) + amount, TOTAL_MAX)
            for name, amount in zip(resources, used, strict=True)
        ]
        usage[reading_rules.pods_index] = len(pods.names)
        prod[reading_rules.pods_index] = pods.prod_count
        pending = _estimate_pending(node, reading_rules)
        if rules.known_usage_only:
            self._use_node_usage(metric, usage, prod, [pod.usage for pod in node.gone])
        if rules.unknown_without_capacity and 0 in self.capacity:
            # A node cannot use a resource that it does not have, so the value is not a measurement.
            self.known = tuple(
                known and (bool(capacity) or not amount)
                for known, capacity, amount in zip(self.known, self.capacity, usage, strict=True)
            )
        if rules.live_usage:
            # Reserved room is not used yet.
            reserved = len(pods.names) - sum(pods.bound)
            usage[reading_rules.pods_index] -= reserved
            pending[reading_rules.pods_index] += reserved
            if reserved:
                prod[reading_rules.pods_index] = sum(map(and_, pods.prod, pods.bound))
        self.usage, self.prod_usage, self.pending = tuple(usage), tuple(prod), tuple(pending)

    def _read_pods(self) -> tuple[IntArray, list[bool]]:
        """Return `pod_usage` and `in_metric`, cached until the node changes."""
        if self._cached_pods is None:
            metric = self.metric if self.updated_ms >= 0 else None
            pod_metrics = () if metric is None else metric.pods
            # Koordinator counts a pod with empty usage as measured (B4.2).
            empty_too = not self.reading_rules.differences.known_usage_only
            reported = {
                (pod.namespace, pod.name): pod.usage
                for pod in pod_metrics
                if pod.usage or empty_too
            }
            resources, names = self.reading_rules.resources, self.pods.names
            rows = [
                [usage.get(name, UNMEASURED) for name in resources]
                for usage in (reported.get(name, _NO_USAGE) for name in names)
            ]
            used = np.array(rows, dtype=np.int64).reshape(len(names), len(resources))
            np.minimum(used, AMOUNT_MAX, out=used)
            used[:, self.reading_rules.pods_index] = UNMEASURED
            self._cached_pods = used, [name in reported for name in names]
        return self._cached_pods

    def _use_node_usage(
        self,
        metric: NodeMetric,
        usage: list[int],
        prod: list[int],
        usage_of_gone: Sequence[Mapping[str, int]],
    ) -> None:
        """Raise `usage` to that of the whole node minus `usage_of_gone` pods, and set `known`."""
        reading_rules = self.reading_rules
        node_usage, system = metric.usage or {}, metric.system_usage
        for index, name in enumerate(reading_rules.resources):
            if name in node_usage and name != "pods":
                remaining = node_usage[name] - sum([pod.get(name, 0) for pod in usage_of_gone])
                usage[index] = max(usage[index], min(remaining, TOTAL_MAX))
        lacks_pods = not metric.pods and any(self.pods.bound)
        if not lacks_pods and all(
            name in system or name == "pods" for name in reading_rules.resources
        ):
            return
        usages = [pod.usage for pod in metric.pods]
        usages += [host.usage for host in metric.host_applications]
        known = []
        for index, name in enumerate(reading_rules.resources):
            if lacks_pods and name in node_usage and name != "pods" and any(self.pods.prod):
                prod[index] = max(0, usage[index] - system.get(name, 0))
            is_measured = (
                name in node_usage
                or any(name in item for item in usages)
                or (name in system and not lacks_pods)
            )
            known.append(is_measured or name == "pods" or not self.capacity[index])
        self.known = tuple(known)


def _sum_live_usage(
    node: Node, pods: PackedPods, resources: tuple[str, ...]
) -> tuple[list[int], list[int]]:
    """Return usage by resource in the node's metric, of its pods and of its prod pods."""
    metric, vectors = node.usage.metric, node.usage.vectors
    assert metric is not None and vectors is not None  # noqa: S101, PT018 - the caller has checked
    if all(name in vectors.resources or name == "pods" for name in resources):
        # Estimation has already read the usage.
        entries = [vectors.pods.get(name) for name in pods.names]
        rows = [entry[0] for entry in entries if entry is not None]
        index_of = {name: index for index, name in enumerate(vectors.resources)}
        live = _sum_rows(rows, index_of, resources)
        if pods.prod_count == len(entries):
            return live, live.copy()
        prod_entries = compress(entries, pods.prod)
        prod_rows = [entry[0] for entry in prod_entries if entry is not None]
        return live, _sum_rows(prod_rows, index_of, resources)
    reported = {(pod.namespace, pod.name): pod.usage for pod in metric.pods if pod.usage}
    usages = [reported.get(name, _NO_USAGE) for name in pods.names]
    prod_usages = list(compress(usages, pods.prod))
    live = [_sum_resource(usages, name) for name in resources]
    return live, [_sum_resource(prod_usages, name) for name in resources]


def _sum_rows(
    rows: Sequence[Amounts], index_of: Mapping[str, int], resources: tuple[str, ...]
) -> list[int]:
    """Return the sums of rows, converted to `resources` and limited like those of `_sum_resource`."""
    if not rows:
        return [0] * len(resources)
    sums = list(map(sum, zip(*rows, strict=True)))
    if max(sums) > AMOUNT_MAX:
        sums = [
            min(sum(min(amount, AMOUNT_MAX) for amount in column), TOTAL_MAX)
            for column in zip(*rows, strict=True)
        ]
    return [sums[index_of[name]] if name in index_of else 0 for name in resources]


def _read_capacity(node: Node, reading_rules: ReadingRules) -> Amounts:
    raw = parse_raw_allocatable({} if node.state is None else node.state.annotations)
    allocatable = node.allocatable
    if raw is not None:
        allocatable = {**allocatable, **raw} if reading_rules.differences.merged_capacity else raw
    return tuple(
        min(max(allocatable.get(name, 0), 0), TOTAL_MAX) for name in reading_rules.resources
    )


def _sum_resource(usages: Iterable[Mapping[str, int]], name: str) -> int:
    """Return the usage of a resource, at most `AMOUNT_MAX` per pod and `TOTAL_MAX` in total."""
    amounts = [usage.get(name, 0) for usage in usages]
    total = sum(amounts)
    if total > AMOUNT_MAX:
        total = sum(min(amount, AMOUNT_MAX) for amount in amounts)
    return min(total, TOTAL_MAX)


def _sum_usages(usages: Iterable[dict[str, int]], resources: tuple[str, ...]) -> list[int]:
    total = [0] * len(resources)
    for usage in usages:
        for index, name in enumerate(resources):
            total[index] += usage.get(name, 0)
    return total


def _estimate_pending(node: Node, reading_rules: ReadingRules) -> list[int]:
    """Return the usage that recently placed pods are expected to add (A4.3)."""
    delta = dict(zip(node.usage.estimator.resources, node.usage.delta, strict=True))
    return [min(max(delta.get(name, 0), 0), TOTAL_MAX) for name in reading_rules.resources]
