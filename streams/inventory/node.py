"""One node: what Kubernetes says of it, the pods held there, their usage and its statistics.

A pod is held from the moment at which a decision reserves its room, or at which it is seen bound,
until it is finished, deleted or given up. `hold` and `release` keep all parts of a node in step: the
sums of requests and limits, the usage that is expected of pods (`usage`), and mean and variance of
the node's usage (`statistics`). So no decision walks over pods.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from schemas.base.capacity import merge_raw_allocatable
from schemas.base.quantities import parse_amounts
from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Pod
from streams.pods.demand import PodDemand, pod_demand
from streams.pods.held import Held
from streams.risk.fleet_usage import Fleet
from streams.risk.node_statistics import NodeStatistics
from streams.usage.estimate import Estimator
from streams.usage.metric import drop_lifetimes
from streams.usage.missing_usage import MissingUsage
from streams.usage.node_usage import ExpectedNodeUsage

#: Pods that have left a node and are remembered, more than a node has.
GONE_MAX = 512


class GonePod(NamedTuple):
    """A pod that has left its node, whose usage the node's means still contain."""

    at_ms: int
    usage: Mapping[str, int]
    """Its usage in the newest metric when it left."""


class RestoredPod(NamedTuple):
    """A pod of a node as a table row has it."""

    held: Held
    counted: Pod
    """The pod as it counts for estimation."""
    counted_at_ms: int | None
    """Since when; None: it does not count."""


class Node:
    """State of one node; rows of plugin columns are derived from it."""

    __slots__ = (
        "allocatable",
        "assumed",
        "capacity",
        "cordoned",
        "fresh",
        "gone",
        "held",
        "installed",
        "limited",
        "limits",
        "list_id",
        "missing",
        "name",
        "ports",
        "requested",
        "row",
        "state",
        "statistics",
        "unlimited",
        "usage",
    )

    def __init__(self, name: str, estimator: Estimator, fleet: Fleet | None = None) -> None:
        """Start with nothing but a name; `fleet`: None if no plugin uses statistics."""
        self.name = name
        self.row = -1
        """Row in the columns; -1 while Kubernetes has not named the node."""
        self.state: NodeState | None = None
        self.list_id: str | None = None
        """The full list that named it last."""
        self.cordoned = False
        """It is being drained and takes no new pods, whatever Kubernetes says."""
        self.fresh = False
        """Its metric is young enough to be believed."""
        self.missing: tuple[MissingUsage, ...] = ()
        """What the policy looks at and its metric lacks."""
        self.allocatable: dict[str, int] = {}
        """Millicores, bytes, pieces: what pods may request."""
        self.capacity: Mapping[str, int] = {}
        """The same before overcommitment: what usage is a share of."""
        self.installed: Mapping[str, int] = {}
        """What the machine has, by resource; empty: not known."""
        self.held: dict[str, Held] = {}
        """By pod uid."""
        self.gone: tuple[GonePod, ...] = ()
        self.requested: Counter[str] = Counter()
        """Sum of the requests of the pods held, per resource."""
        self.assumed: Counter[str] = Counter()
        """Sum of what scores by requests add for containers without any, per resource."""
        self.limits: Counter[str] = Counter()
        """Sum of the limits of the pods held that have one, per resource."""
        self.limited: Counter[str] = Counter()
        """How many of the pods held have a limit, per resource."""
        self.unlimited: Counter[str] = Counter()
        """Sum of the requests of the pods held that have no limit, per resource."""
        self.ports: Counter[tuple[str, int, str]] = Counter()
        """Host ports taken: protocol, port, address."""
        self.usage = ExpectedNodeUsage(estimator)
        self.statistics = None if fleet is None else NodeStatistics(fleet)
        """None: no plugin uses them."""

    # --- Kubernetes and metrics -----------------------------------------------------------------

    def describe(self, state: NodeState | None) -> None:
        """Take over what Kubernetes says; None: the node was removed."""
        self.state = state
        self.allocatable = {} if state is None else parse_amounts(state.allocatable)
        self.installed = {} if state is None else parse_amounts(state.capacity)
        self.capacity = merge_raw_allocatable(
            self.allocatable, {} if state is None else state.annotations
        )
        self.update_thresholds()

    def forget_usage(self) -> None:
        """Drop the metric and all that was learned of the usage: another node of its name may come."""
        self.gone = ()
        self.usage.set_metric(None)
        if self.statistics is not None:
            self.statistics = NodeStatistics(self.statistics.fleet)
            for held in self.held.values():
                self.statistics.add(held)

    def set_metric(
        self, metric: NodeMetric | None, *, average_ms: int = 0, extend: bool = True
    ) -> bool:
        """Replace the metric; return whether it extended the lifetimes of pods.

        Args:
            metric: None: it is gone.
            average_ms: length of the window that its means are over.
            extend: False: the lifetimes contain it already.
        """
        self.usage.set_metric(None if metric is None else drop_lifetimes(metric))
        if self.gone:
            since_ms = ((metric.updated_at_ms or 0) if metric else 0) - average_ms
            self.gone = tuple([each for each in self.gone if each.at_ms > since_ms])
        statistics = self.statistics
        return statistics is not None and statistics.measure(
            metric, self.held.values(), [each.usage for each in self.gone], extend=extend
        )

    # --- policy ---------------------------------------------------------------------------------

    def set_estimator(self, estimator: Estimator) -> bool:
        """Use another policy; return False if it estimates all pods like the one before."""
        changed = self.usage.set_estimator(estimator)
        self.update_thresholds()
        return changed

    def update_thresholds(self) -> None:
        self.usage.set_profile(self.capacity, {} if self.state is None else self.state.annotations)

    def set_fleet(self, fleet: Fleet | None) -> bool:
        """Use other arguments of statistics; return whether lifetimes of pods were dropped.

        Lifetimes go on under arguments for the same resources.
        """
        before = self.statistics
        if fleet is None:
            self.statistics = None
            return before is not None
        metric, held = self.usage.metric, self.held.values()
        if before is not None and before.fleet.resources == fleet.resources:
            return before.set_fleet(fleet, metric, held)
        self.statistics = NodeStatistics(fleet)
        self.statistics.set_fleet(fleet, metric, held)
        return before is not None

    # --- pods -----------------------------------------------------------------------------------

    def hold(self, held: Held, now_ms: int, *, recount: bool = False) -> None:
        """Take room for a pod; a pod that is held already is replaced.

        Args:
            held: the pod.
            now_ms: time of the log.
            recount: count the pod for estimation from now even if nothing about it has changed.
        """
        self._take_room(held)
        if recount:
            self.usage.assign(held.pod, held.demand, now_ms)
        else:
            self.usage.update(held.pod, held.demand, now_ms)

    def restore(self, pods: Sequence[RestoredPod]) -> None:
        """Take room for all pods of the node as a table row has them; sums are added up once."""
        counted = []
        for held, pod, counted_at_ms in pods:
            self.held[held.pod.uid] = held
            self._count(held.demand, 1)
            if counted_at_ms is not None:
                demand = held.demand if pod is held.pod else pod_demand(pod)
                counted.append((pod, demand, counted_at_ms))
        self.usage.restore(counted)
        if self.statistics is not None:
            self.statistics.sum_up(self.held.values())

    def release(self, uid: str, now_ms: int = 0) -> Held | None:
        """Give a pod's room back at a time of the log; None: it was not held."""
        held = self._give_back(uid)
        if held is not None:
            self.usage.unassign(uid)
            self._note_gone(held.pod, now_ms)
        return held

    def _note_gone(self, pod: Pod, now_ms: int) -> None:
        metric = self.usage.metric
        if metric is None or len(self.gone) >= GONE_MAX:
            return
        for measured in metric.pods:
            if measured.name == pod.name and measured.namespace == pod.namespace:
                self.gone = (*self.gone, GonePod(now_ms, measured.usage))
                return

    def _take_room(self, held: Held) -> None:
        self._give_back(held.pod.uid)
        self.held[held.pod.uid] = held
        self._count(held.demand, 1)
        if self.statistics is not None:
            self.statistics.add(held)

    def _give_back(self, uid: str) -> Held | None:
        held = self.held.pop(uid, None)
        if held is not None:
            self._count(held.demand, -1)
            if self.statistics is not None:
                self.statistics.remove(held)
        return held

    def _count(self, demand: PodDemand, sign: int) -> None:
        for resource, amount in demand.requests.items():
            self.requested[resource] += sign * amount
            if demand.limits.get(resource, 0) <= 0:
                self.unlimited[resource] += sign * amount
        for resource, amount in demand.limits.items():
            if amount > 0:
                self.limits[resource] += sign * amount
                self.limited[resource] += sign
        for resource, amount in demand.assumed.items():
            self.assumed[resource] += sign * amount
        for port in demand.host_ports:
            self.ports[port.protocol, port.port, port.host_ip] += sign
            if sign < 0 and not self.ports[port.protocol, port.port, port.host_ip]:
                del self.ports[port.protocol, port.port, port.host_ip]
