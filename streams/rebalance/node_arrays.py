"""What a round needs to know of one node: capacity, usage, and its pods in packed arrays.

Made when something about the node has changed, never in a round; arrays over pods, which only
rounds on a hot node look at, when they are asked for. Axes: resources are those of
`Universe.resources`; pods are in ascending order of uids, or, to be Koordinator's equal, as they
came.

Two readings of the same metric exist (`differences`). By ours (docs/reference/upstream.md X17, X21) usage is
that of the system part, of the pods that are still there and of host applications, and at least that
of the whole node less what pods used that have left it lately: pods without a record are part of it.
The raw allocatable is merged over the allocatable. A resource of which a metric says nothing at all is
not known, nor is one that the node uses and has none of. By
Koordinator's, usage is that of the system part and of every pod that the metric names, and the raw
allocatable takes the place of the allocatable.
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

#: Amounts of a whole node end here, so that sums and differences of a few of them fit into 64 bits.
TOTAL_MAX = 2**60
#: A pod's usage where it was not measured.
UNMEASURED = -1

Amounts = tuple[int, ...]


@dataclass(frozen=True)
class Universe:
    """Which resources a policy looks at, and by which rules."""

    resources: tuple[str, ...]
    """Names in ascending order; `pods` is among them."""
    differences: Differences
    min_samples: int = 0
    """Means of fewer samples say nothing."""

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each resource."""
        return {name: index for index, name in enumerate(self.resources)}

    @cached_property
    def pods(self) -> int:
        """Position of the number of pods."""
        return self.index["pods"]


_NOTHING: Mapping[str, int] = {}


class NodeFigures:
    """Figures of one node."""

    __slots__ = (
        "_measured",
        "capacity",
        "known",
        "metric",
        "name",
        "node",
        "pending",
        "pods",
        "prod_usage",
        "state",
        "universe",
        "updated_ms",
        "usage",
    )

    def __init__(self, name: str, universe: Universe, pods: PackedPods | None = None) -> None:
        """`pods`: the node's as they were packed before, in the order of the universe's reading."""
        self.name = name
        self.node: Node | None = None
        self.state: NodeState | None = None
        self.metric: NodeMetric | None = None
        self.capacity: Amounts = (0,) * len(universe.resources)
        self.usage = self.prod_usage = self.pending = self.capacity
        self.known: tuple[bool, ...] = (True,) * len(universe.resources)
        """Whether the metric says anything of each resource, or the node has none of it."""
        self.updated_ms = -1
        """Time of the metric; -1: there is none that says anything of the node."""
        self.pods = pods or PackedPods(())
        self.universe = universe
        self._measured: tuple[IntArray, list[bool]] | None = None

    @property
    def used(self) -> IntArray:
        """Usage of each pod, shape (pods, resources); `UNMEASURED` where the metric lacks it."""
        return self._of_pods()[0]

    @property
    def metered(self) -> list[bool]:
        """Whether the metric says anything of each pod, even of other resources only."""
        return self._of_pods()[1]

    def take(self, node: Node, universe: Universe) -> bool:
        """Take over a node as it is now; True if what Kubernetes says of it has changed."""
        described = self.state is not node.state
        self.node = node
        if described:
            self.state = node.state
            self.capacity = _capacity(node, universe)
        held = list(node.held.values())
        self.pods = self.pods.renewed(held, by_uid=universe.differences.order_by_uid)
        self.metric = node.usage.metric
        self._measured = None
        self._measure(node, universe)
        return described

    def _measure(self, node: Node, universe: Universe) -> None:
        metric = self.metric
        pods = self.pods
        if (
            metric is None
            or metric.usage is None
            or metric.updated_at_ms is None
            or 0 < metric.samples < universe.min_samples
        ):
            self.updated_ms = -1
            return
        self.updated_ms = metric.updated_at_ms
        self.known = (True,) * len(universe.resources)
        resources = universe.resources
        measured = _Measured(node, pods, resources)
        live, prod = measured.live, measured.prod
        rules = universe.differences
        if not rules.live_usage:
            # All that the metric names, also what it names twice (B2.1).
            used = _sum((pod.usage for pod in metric.pods), resources)
            names = set(compress(pods.names, pods.prod))
            prod_pods = (pod for pod in metric.pods if (pod.namespace, pod.name) in names)
            of_prod = _sum((pod.usage for pod in prod_pods), resources)
            prod = [min(amount, TOTAL_MAX) for amount in of_prod]
        elif metric.host_applications:
            hosts = _sum((host.usage for host in metric.host_applications), resources)
            used = [a + b for a, b in zip(live, hosts, strict=True)]
        else:
            used = live
        system = metric.system_usage
        usage = [
            min(system.get(name, 0) + amount, TOTAL_MAX)
            for name, amount in zip(resources, used, strict=True)
        ]
        usage[universe.pods] = len(pods.names)
        prod[universe.pods] = pods.prods
        pending = _pending(node, universe)
        if rules.known_usage_only:
            self._complete(metric, usage, prod, [each.usage for each in node.gone])
        if rules.unknown_without_capacity and 0 in self.capacity:
            # Impossible is not measured: what a node has none of cannot be used there.
            self.known = tuple(
                known and (bool(capacity) or not amount)
                for known, capacity, amount in zip(self.known, self.capacity, usage, strict=True)
            )
        if rules.live_usage:
            # Room that is only reserved is not used yet.
            reserved = len(pods.names) - sum(pods.bound)
            usage[universe.pods] -= reserved
            pending[universe.pods] += reserved
            if reserved:
                prod[universe.pods] = sum(map(and_, pods.prod, pods.bound))
        self.usage, self.prod_usage, self.pending = tuple(usage), tuple(prod), tuple(pending)

    def _of_pods(self) -> tuple[IntArray, list[bool]]:
        """Usage of each pod, and whether anything of it was measured.

        Kept until the node is packed again.
        """
        if self._measured is None:
            metric = self.metric if self.updated_ms >= 0 else None
            parts = () if metric is None else metric.pods
            # To Koordinator a pod whose usage is empty is measured all the same (B4.2).
            empty_too = not self.universe.differences.known_usage_only
            reported = {
                (pod.namespace, pod.name): pod.usage for pod in parts if pod.usage or empty_too
            }
            resources, names = self.universe.resources, self.pods.names
            rows = [
                [usage.get(name, UNMEASURED) for name in resources]
                for usage in (reported.get(name, _NOTHING) for name in names)
            ]
            used = np.array(rows, dtype=np.int64).reshape(len(names), len(resources))
            np.minimum(used, AMOUNT_MAX, out=used)
            used[:, self.universe.pods] = UNMEASURED
            self._measured = used, [name in reported for name in names]
        return self._measured

    def _complete(
        self,
        metric: NodeMetric,
        usage: list[int],
        prod: list[int],
        gone: Sequence[Mapping[str, int]],
    ) -> None:
        """Raise usage to that of the whole node, and note the resources that the metric lacks.

        Args:
            metric: the metric.
            usage: by resource, of the parts that are there; raised here.
            prod: by resource, of the prod pods that are there; raised here.
            gone: usage of pods that have left lately and are in the whole.
        """
        universe = self.universe
        whole, system = metric.usage or {}, metric.system_usage
        for index, name in enumerate(universe.resources):
            if name in whole and name != "pods":
                left = whole[name] - sum([each.get(name, 0) for each in gone])
                usage[index] = max(usage[index], min(left, TOTAL_MAX))
        lacks_pods = not metric.pods and any(self.pods.bound)
        if not lacks_pods and all(name in system or name == "pods" for name in universe.resources):
            return
        usages = [part.usage for part in metric.pods]
        usages += [part.usage for part in metric.host_applications]
        known = []
        for index, name in enumerate(universe.resources):
            if lacks_pods and name in whole and name != "pods" and any(self.pods.prod):
                prod[index] = max(0, usage[index] - system.get(name, 0))
            named = name in whole or any(name in usage_of for usage_of in usages)
            said = named or (name in system and not lacks_pods)
            known.append(said or name == "pods" or not self.capacity[index])
        self.known = tuple(known)


class _Measured:
    """What a metric says of the pods that a node has, by resource."""

    __slots__ = ("live", "prod")

    def __init__(self, node: Node, pods: PackedPods, resources: tuple[str, ...]) -> None:
        metric, known = node.usage.metric, node.usage.vectors
        assert metric is not None and known is not None  # noqa: S101, PT018 - the caller looked
        if all(name in known.resources or name == "pods" for name in resources):
            # They were read when the node's pods were counted.
            of_pods = known.pods
            found = [of_pods.get(name) for name in pods.names]
            rows = [each[0] for each in found if each is not None]
            place = {name: index for index, name in enumerate(known.resources)}
            self.live = _added(rows, place, resources)
            if pods.prods == len(found):
                self.prod = self.live.copy()
            else:
                of_prod = [each[0] for each in compress(found, pods.prod) if each is not None]
                self.prod = _added(of_prod, place, resources)
            return
        reported = {(pod.namespace, pod.name): pod.usage for pod in metric.pods if pod.usage}
        usages = [reported.get(name, _NOTHING) for name in pods.names]
        self.live = [_total(usages, name) for name in resources]
        self.prod = [_total(compress(usages, pods.prod), name) for name in resources]


def _added(
    rows: Sequence[Amounts], place: Mapping[str, int], resources: tuple[str, ...]
) -> list[int]:
    """Sums of rows over other resources; see `_total`."""
    if not rows:
        return [0] * len(resources)
    sums = list(map(sum, zip(*rows, strict=True)))
    if max(sums) > AMOUNT_MAX:
        sums = [
            min(sum(min(amount, AMOUNT_MAX) for amount in column), TOTAL_MAX)
            for column in zip(*rows, strict=True)
        ]
    return [sums[place[name]] if name in place else 0 for name in resources]


def _capacity(node: Node, universe: Universe) -> Amounts:
    raw = parse_raw_allocatable({} if node.state is None else node.state.annotations)
    allocatable = node.allocatable
    if raw is not None:
        allocatable = {**allocatable, **raw} if universe.differences.merged_capacity else raw
    return tuple(min(max(allocatable.get(name, 0), 0), TOTAL_MAX) for name in universe.resources)


def _total(usages: Iterable[Mapping[str, int]], name: str) -> int:
    """What pods use of a resource in all, at most `TOTAL_MAX`; of each at most `AMOUNT_MAX`."""
    amounts = [usage.get(name, 0) for usage in usages]
    total = sum(amounts)
    if total > AMOUNT_MAX:
        total = sum(min(amount, AMOUNT_MAX) for amount in amounts)
    return min(total, TOTAL_MAX)


def _sum(usages: Iterable[dict[str, int]], resources: tuple[str, ...]) -> list[int]:
    total = [0] * len(resources)
    for usage in usages:
        for index, name in enumerate(resources):
            total[index] += usage.get(name, 0)
    return total


def _pending(node: Node, universe: Universe) -> list[int]:
    """What pods that the metric does not know well yet are expected to add (A4.3)."""
    delta = dict(zip(node.usage.estimator.resources, node.usage.delta, strict=True))
    return [min(max(delta.get(name, 0), 0), TOTAL_MAX) for name in universe.resources]
