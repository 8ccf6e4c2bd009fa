"""What a round needs to know of one node: capacity, usage, and its pods in packed arrays.

Made when something about the node has changed, never in a round. Axes: resources are those of
`Universe.resources`; pods are in ascending order of uids, or, to be Koordinator's equal, as they came.

Two readings of the same metric exist. By loadstream's (X17, X21) usage is that of the system part, of the
pods that are still there and of host applications, and the raw allocatable is merged over the
allocatable. Missing is not zero: where a metric lacks the system part, or all pods of a node that has some, the usage
of the whole node stands in; a resource of which it says nothing at all is not known. By Koordinator's, usage is that of the system part and of every pod that the metric names,
and the raw allocatable takes the place of the allocatable.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

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


#: A row of keys, and whether the pod is prod.
_Rank = tuple[Sequence[int], bool]


def _rank(held: Held) -> _Rank:
    keys = eviction_keys(held.pod, held.demand)
    return (*packed(keys), -(held.pod.created_at_ms or 0)), keys[0] == _PROD


class PackedPods:
    """Pods of one node; what of them does not depend on a metric."""

    __slots__ = ("bound", "held", "keys", "names", "pods", "prod", "terminating")

    def __init__(self, held: Iterable[Held], before: "PackedPods | None" = None) -> None:
        """`before`: the node's pods until now; those that stay as they were are not ranked again."""
        self.held = list(held)
        self.pods = [each.pod for each in self.held]
        self.names = [(pod.namespace, pod.name) for pod in self.pods]
        ranked = {} if before is None else before.ranked()
        ranks = [ranked.get(id(each.pod)) or _rank(each) for each in self.held]
        rows = [row for row, _ in ranks]
        self.keys: IntArray = np.array(rows, dtype=np.int64).reshape(len(rows), 4)
        """Shape (pods, 4): the six keys of `costs` in three, then youngest first; lower is evicted first."""
        self.prod = [prod for _, prod in ranks]
        self.bound = [pod.node is not None for pod in self.pods]
        """Not those for which room is only reserved."""
        self.terminating = [
            index for index, pod in enumerate(self.pods) if pod.deleting_at_ms is not None
        ]

    def ranked(self) -> dict[int, "_Rank"]:
        """Each pod's row of `keys` and whether it is prod, by the pod's identity."""
        ranks = zip(self.keys.tolist(), self.prod, strict=True)
        return dict(zip(map(id, self.pods), ranks, strict=True))

    def holds(self, held: list[Held]) -> bool:
        """Whether these are the same pods in the same state."""
        return len(held) == len(self.pods) and all(
            each.pod is pod for each, pod in zip(held, self.pods, strict=True)
        )


class NodeFigures:
    """Figures of one node."""

    __slots__ = (
        "capacity",
        "known",
        "metered",
        "metric",
        "name",
        "node",
        "pending",
        "pods",
        "prod_usage",
        "state",
        "updated_ms",
        "usage",
        "used",
    )

    def __init__(self, name: str, universe: Universe) -> None:
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
        self.pods = PackedPods(())
        self.used: IntArray = np.zeros((0, len(universe.resources)), dtype=np.int64)
        """Usage of each pod, shape (pods, resources); `UNMEASURED` where the metric lacks it."""
        self.metered: list[bool] = []
        """Whether the metric says anything of each pod, be it of other resources only."""

    def take(self, node: Node, universe: Universe) -> bool:
        """Take over a node as it is now; True if what Kubernetes says of it has changed."""
        described = self.state is not node.state
        self.node = node
        if described:
            self.state = node.state
            self.capacity = _capacity(node, universe)
        held = list(node.held.values())
        if universe.compat == "loadstream":
            # What was heard of first must not matter.
            held.sort(key=_uid)
        if not self.pods.holds(held):
            self.pods = PackedPods(held, self.pods)
        else:
            self.pods.held = held
        self.metric = node.load.metric
        self._measure(node, universe)
        return described

    def _measure(self, node: Node, universe: Universe) -> None:
        metric = self.metric
        pods = self.pods
        count = len(pods.names)
        if metric is None or metric.usage is None or metric.updated_at_ms is None:
            self.updated_ms = -1
            self.used = np.full((count, len(universe.resources)), UNMEASURED, dtype=np.int64)
            self.metered = [False] * count
            return
        self.updated_ms = metric.updated_at_ms
        self.known = (True,) * len(universe.resources)
        resources = universe.resources
        reported = {(pod.namespace, pod.name): pod.usage for pod in metric.pods if pod.usage}
        self.metered = [name in reported for name in pods.names]
        lacking: dict[str, int] = {}
        self.used = np.array(
            [
                [usage.get(name, UNMEASURED) for name in resources]
                for usage in [reported.get(name, lacking) for name in pods.names]
            ],
            dtype=np.int64,
        ).reshape(count, len(resources))
        np.minimum(self.used, AMOUNT_MAX, out=self.used)
        self.used[:, universe.pods] = UNMEASURED
        measured = np.maximum(self.used, 0)
        if universe.compat == "koordinator":
            live = _sum((pod.usage for pod in metric.pods), resources)
        else:
            hosts = _sum((host.usage for host in metric.host_applications), resources)
            live = [a + b for a, b in zip(_total(measured), hosts, strict=True)]
        usage = [
            min(metric.system_usage.get(name, 0) + live[index], TOTAL_MAX)
            for index, name in enumerate(resources)
        ]
        prod = _total(measured[np.array(pods.prod, dtype=np.bool_)])
        usage[universe.pods] = count
        prod[universe.pods] = sum(pods.prod)
        pending = _pending(node, universe)
        if universe.compat == "loadstream":
            self._complete(metric, usage, prod, universe)
            # Room that is only reserved is nobody's usage yet.
            reserved = count - sum(pods.bound)
            usage[universe.pods] -= reserved
            pending[universe.pods] += reserved
        self.usage, self.prod_usage, self.pending = tuple(usage), tuple(prod), tuple(pending)

    def _complete(
        self, metric: NodeMetric, usage: list[int], prod: list[int], universe: Universe
    ) -> None:
        """Put the whole node's usage in the place of parts that the metric lacks.

        Args:
            metric: the metric.
            usage: by resource, of the parts that are there; raised here.
            prod: by resource, of the prod pods that are there; raised here.
            universe: what the resources are.
        """
        whole, system = metric.usage or {}, metric.system_usage
        lacks_pods = not metric.pods and any(self.pods.bound)
        if not lacks_pods and all(name in system or name == "pods" for name in universe.resources):
            return
        reported = _sum((pod.usage for pod in metric.pods), universe.resources)
        live = _total(np.maximum(self.used, 0))
        usages = [part.usage for part in metric.pods]
        usages += [part.usage for part in metric.host_applications]
        known = []
        for index, name in enumerate(universe.resources):
            lacks = lacks_pods or name not in system
            if lacks and name in whole and name != "pods":
                # Pods that are gone are in the whole.
                gone = reported[index] - live[index]
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


def _total(amounts: IntArray) -> list[int]:
    """Sums over pods, shape (resources,), at most `TOTAL_MAX`: exact up to 2**53, and never beyond 64 bits."""
    sums = amounts.sum(axis=0, dtype=np.float64)
    total: list[int] = np.minimum(sums, TOTAL_MAX).astype(np.int64).tolist()
    return total


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
