"""What a round needs to know of one node: capacity, usage, and its pods in packed arrays.

Made when something about the node has changed, never in a round; arrays over pods, which only rounds on a hot node
look at, when they are asked for. Axes: resources are those of
`Universe.resources`; pods are in ascending order of uids, or, to be Koordinator's equal, as they came.

Two readings of the same metric exist. By loadstream's (X17, X21) usage is that of the system part, of the
pods that are still there and of host applications, and the raw allocatable is merged over the
allocatable. Missing is not zero: where a metric lacks the system part, or all pods of a node that has some, the usage
of the whole node stands in; a resource of which it says nothing at all is not known. By Koordinator's, usage is that of the system part and of every pod that the metric names,
and the raw allocatable takes the place of the allocatable.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import compress
from operator import is_

import numpy as np

from schemas.base import AMOUNT_MAX
from schemas.metrics import NodeMetric
from schemas.nodes import NodeState
from schemas.policy import Compat
from streams.cluster.node import Held, Node
from streams.cluster.plugins.base import IntArray
from streams.cluster.thresholds import raw_allocatable
from streams.rebalance.costs import CLASS_RANKS, eviction_keys, packed

#: Amounts of a whole node end here, so that sums and differences of a few of them fit into 64 bits.
TOTAL_MAX = 2**60
#: A pod's usage where it was not measured.
UNMEASURED = -1

_PROD = CLASS_RANKS["prod"]

Amounts = tuple[int, ...]


@dataclass(frozen=True)
class Universe:
    """Which resources a policy looks at, and by whose reading."""

    resources: tuple[str, ...]
    """Names in ascending order; `pods` is among them."""
    compat: Compat

    @cached_property
    def index(self) -> dict[str, int]:
        """Position of each resource."""
        return {name: index for index, name in enumerate(self.resources)}

    @cached_property
    def pods(self) -> int:
        """Position of the number of pods."""
        return self.index["pods"]


_NOTHING: Mapping[str, int] = {}

#: A row of keys, and whether the pod is prod.
_Rank = tuple[Sequence[int], bool]


def _rank(held: Held) -> _Rank:
    keys = eviction_keys(held.pod, held.demand)
    return (*packed(keys), -(held.pod.created_at_ms or 0)), keys[0] == _PROD


class PackedPods:
    """Pods of one node; what of them does not depend on a metric."""

    __slots__ = ("_keys", "_ranks", "bound", "held", "names", "pods", "prod", "source", "terminating")

    def __init__(
        self, source: Sequence[Held], before: "PackedPods | None" = None, *, by_uid: bool = False
    ) -> None:
        """Pack.

        Args:
            source: the pods as the node has them.
            before: the node's pods until now; those that stay as they were are not ranked again.
            by_uid: put them into ascending order of uids; what was heard of first must not matter.
        """
        self.source = list(source)
        self.held = sorted(source, key=_uid) if by_uid else self.source
        self.pods = [each.pod for each in self.held]
        self.names = [(pod.namespace, pod.name) for pod in self.pods]
        ranked = {} if before is None else before.ranked()
        self._ranks = [ranked.get(id(each.pod)) or _rank(each) for each in self.held]
        self._keys: IntArray | None = None
        self.prod = [prod for _, prod in self._ranks]
        self.bound = [pod.node is not None for pod in self.pods]
        """Not those for which room is only reserved."""
        self.terminating = [
            index for index, pod in enumerate(self.pods) if pod.deleting_at_ms is not None
        ]

    @property
    def keys(self) -> IntArray:
        """Shape (pods, 4): the six keys of `costs` in three, then youngest first; lower is evicted first."""
        if self._keys is None:
            rows = [row for row, _ in self._ranks]
            self._keys = np.array(rows, dtype=np.int64).reshape(len(rows), 4)
        return self._keys

    def ranked(self) -> "dict[int, _Rank]":
        """Each pod's row of `keys` and whether it is prod, by the pod's identity."""
        return dict(zip(map(id, self.pods), self._ranks, strict=True))

    def renewed(self, source: Sequence[Held], *, by_uid: bool) -> "PackedPods":
        """The node's pods as they are now; itself, if they are the same in the same state."""
        if len(source) != len(self.source):
            return PackedPods(source, self, by_uid=by_uid)
        if not all(map(is_, source, self.source)):
            if not all(new.pod is old.pod for new, old in zip(source, self.source, strict=True)):
                return PackedPods(source, self, by_uid=by_uid)
            self.source = list(source)
            self.held = sorted(source, key=_uid) if by_uid else self.source
        return self


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
        """Whether the metric says anything of each pod, be it of other resources only."""
        return self._of_pods()[1]

    def take(self, node: Node, universe: Universe) -> bool:
        """Take over a node as it is now; True if what Kubernetes says of it has changed."""
        described = self.state is not node.state
        self.node = node
        if described:
            self.state = node.state
            self.capacity = _capacity(node, universe)
        held = list(node.held.values())
        self.pods = self.pods.renewed(held, by_uid=universe.compat == "loadstream")
        self.metric = node.load.metric
        self._measured = None
        self._measure(node, universe)
        return described

    def _measure(self, node: Node, universe: Universe) -> None:
        metric = self.metric
        pods = self.pods
        if metric is None or metric.usage is None or metric.updated_at_ms is None:
            self.updated_ms = -1
            return
        self.updated_ms = metric.updated_at_ms
        self.known = (True,) * len(universe.resources)
        resources = universe.resources
        reported = {(pod.namespace, pod.name): pod.usage for pod in metric.pods if pod.usage}
        usages = [reported.get(name, _NOTHING) for name in pods.names]
        live = [_total(usages, name) for name in resources]
        prods = sum(pods.prod)
        of_prod = usages if prods == len(usages) else list(compress(usages, pods.prod))
        prod = live.copy() if of_prod is usages else [_total(of_prod, name) for name in resources]
        if universe.compat == "koordinator":
            used = _sum((pod.usage for pod in metric.pods), resources)
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
        usage[universe.pods] = len(usages)
        prod[universe.pods] = prods
        pending = _pending(node, universe)
        if universe.compat == "loadstream":
            self._complete(metric, usage, prod, live)
            # Room that is only reserved is nobody's usage yet.
            reserved = len(usages) - sum(pods.bound)
            usage[universe.pods] -= reserved
            pending[universe.pods] += reserved
        self.usage, self.prod_usage, self.pending = tuple(usage), tuple(prod), tuple(pending)

    def _of_pods(self) -> tuple[IntArray, list[bool]]:
        """Usage of each pod, and whether anything of it was measured; kept until the node is packed again."""
        if self._measured is None:
            metric = self.metric if self.updated_ms >= 0 else None
            parts = () if metric is None else metric.pods
            reported = {(pod.namespace, pod.name): pod.usage for pod in parts if pod.usage}
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
        self, metric: NodeMetric, usage: list[int], prod: list[int], live: list[int]
    ) -> None:
        """Put the whole node's usage in the place of parts that the metric lacks.

        Args:
            metric: the metric.
            usage: by resource, of the parts that are there; raised here.
            prod: by resource, of the prod pods that are there; raised here.
            live: by resource, what is measured of pods that are there.
        """
        universe = self.universe
        whole, system = metric.usage or {}, metric.system_usage
        lacks_pods = not metric.pods and any(self.pods.bound)
        if not lacks_pods and all(name in system or name == "pods" for name in universe.resources):
            return
        usages = [part.usage for part in metric.pods]
        usages += [part.usage for part in metric.host_applications]
        known = []
        for index, name in enumerate(universe.resources):
            lacks = lacks_pods or name not in system
            if lacks and name in whole and name != "pods":
                # Pods that are gone are in the whole.
                reported = sum([part.usage.get(name, 0) for part in metric.pods])
                gone = reported - live[index]
                usage[index] = max(usage[index], min(whole[name] - gone, TOTAL_MAX))
                if lacks_pods and any(self.pods.prod):
                    prod[index] = max(0, usage[index] - system.get(name, 0))
            named = name in whole or any(name in usage_of for usage_of in usages)
            said = named or (name in system and not lacks_pods)
            known.append(said or name == "pods" or not self.capacity[index])
        self.known = tuple(known)


def amounts_of(used: IntArray, universe: Universe) -> IntArray:
    """What moving pods would take away: their usage, 0 where unmeasured, and one pod each."""
    amounts = np.maximum(used, 0)
    amounts[..., universe.pods] = 1
    return amounts


def _uid(held: Held) -> str:
    return held.pod.uid


def _capacity(node: Node, universe: Universe) -> Amounts:
    raw = raw_allocatable({} if node.state is None else node.state.annotations)
    allocatable = node.allocatable
    if raw is not None:
        allocatable = raw if universe.compat == "koordinator" else {**allocatable, **raw}
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
    """What pods that the metric does not know well yet are expected to add (features.md 1.4)."""
    delta = dict(zip(node.load.estimator.resources, node.load.delta, strict=True))
    return [min(max(delta.get(name, 0), 0), TOTAL_MAX) for name in universe.resources]
