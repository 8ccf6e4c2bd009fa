"""One node: its state in Kubernetes, held pods, expected usage, and statistics.

A node holds a pod from the decision that reserves the room, or from the record that shows the pod on the
node. It releases the pod when the pod has finished or is deleted, or when the reservation ends. `hold` and
`release` update the sums of requests and limits, expected usage (`usage`), and mean and variance of usage
(`statistics`). So decisions need not iterate over pods.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from schemas.base.capacity import merge_raw_allocatable
from schemas.base.quantities import parse_amounts
from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Pod
from streams.pods.held_pod import HeldPod
from streams.pods.kind import PodDemand, kind_of
from streams.risk.fleet_usage import Fleet
from streams.risk.node_statistics import NodeStatistics
from streams.usage.estimate import Estimator
from streams.usage.metric import drop_lifetimes
from streams.usage.missing_usage import MissingUsage
from streams.usage.node_usage import ExpectedNodeUsage

#: Most remembered pods that have left a node: more than a node holds.
GONE_MAX = 512


class GonePod(NamedTuple):
    """A pod that has left its node, while the means in metrics still include its usage."""

    at_ms: int
    usage: Mapping[str, int]
    """Usage in the last metric before the pod left."""


class RestoredPod(NamedTuple):
    """A pod of a node, restored from a table row."""

    held: HeldPod
    counted: Pod
    """The pod when estimation counted it last."""
    counted_at_ms: int | None
    """Time when estimation counted it last; None if estimation ignores the pod."""


class Node:
    def __init__(self, name: str, estimator: Estimator, fleet: Fleet | None = None) -> None:
        """`fleet` is None if no plugin uses statistics."""
        self.name = name
        self.row = -1
        """Row in arrays over nodes; -1 if the node has none."""
        self.state: NodeState | None = None
        self.list_id: str | None = None
        """The last full list that contains the node."""
        self.cordoned = False
        """Whether the node is being drained, and gets no new pods."""
        self.fresh = False
        """Whether the metric has not expired."""
        self.missing: tuple[MissingUsage, ...] = ()
        """Usage that the policy needs and the metric lacks."""
        self.allocatable: dict[str, int] = {}
        """Amounts that pods may request: millicores, bytes, pieces."""
        self.capacity: Mapping[str, int] = {}
        """Allocatable before overcommitment; usage is compared with it."""
        self.installed: Mapping[str, int] = {}
        """Capacity of the machine; empty if unknown."""
        self.held: dict[str, HeldPod] = {}
        """By uid of the pod."""
        self.gone: tuple[GonePod, ...] = ()
        self.requested: Counter[str] = Counter()
        """Sum of requests of held pods by resource."""
        self.assumed: Counter[str] = Counter()
        """Sum of the requests that scores assume for containers without a request."""
        self.limits: Counter[str] = Counter()
        """Sum of limits."""
        self.limited: Counter[str] = Counter()
        """Number of pods with a limit."""
        self.unlimited: Counter[str] = Counter()
        """Sum of requests of pods without a limit."""
        self.ports: Counter[tuple[str, int, str]] = Counter()
        """Host ports in use: protocol, port, address."""
        self.usage = ExpectedNodeUsage(estimator)
        self.statistics = None if fleet is None else NodeStatistics(fleet)

    # --- Kubernetes and metrics -----------------------------------------------------------------

    def set_state(self, state: NodeState | None) -> None:
        """Replace the state in Kubernetes; None if the node was removed."""
        self.state = state
        self.allocatable = {} if state is None else parse_amounts(state.allocatable)
        self.installed = {} if state is None else parse_amounts(state.capacity)
        self.capacity = merge_raw_allocatable(
            self.allocatable, {} if state is None else state.annotations
        )
        self.update_thresholds()

    def forget_usage(self) -> None:
        """Drop metric and statistics: a later node with the same name is another node."""
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
            metric: the metric; None if it was removed.
            average_ms: length of the window of the metric's means.
            extend: False if the lifetimes already include the metric.
        """
        self.usage.set_metric(None if metric is None else drop_lifetimes(metric))
        if self.gone:
            since_ms = ((metric.updated_at_ms or 0) if metric else 0) - average_ms
            self.gone = tuple([pod for pod in self.gone if pod.at_ms > since_ms])
        statistics = self.statistics
        return statistics is not None and statistics.apply_metric(
            metric, self.held.values(), [pod.usage for pod in self.gone], extend=extend
        )

    # --- policy ---------------------------------------------------------------------------------

    def set_estimator(self, estimator: Estimator) -> bool:
        """Apply another estimator; return whether estimates of pods may change."""
        changed = self.usage.set_estimator(estimator)
        self.update_thresholds()
        return changed

    def update_thresholds(self) -> None:
        self.usage.set_profile(self.capacity, {} if self.state is None else self.state.annotations)

    def set_fleet(self, fleet: Fleet | None) -> bool:
        """Apply other arguments of statistics; return whether lifetimes of pods were dropped.

        Lifetimes are kept if the arguments have the same resources.
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

    def hold(self, held: HeldPod, now_ms: int, *, first_seen: bool = False) -> None:
        """Hold a pod, or replace a held one; `first_seen` as in `Inventory.hold`."""
        self._remove(held.pod.uid)
        self.held[held.pod.uid] = held
        self._count(held.kind.demand, 1)
        if self.statistics is not None:
            self.statistics.add(held)
        if first_seen:
            self.usage.assign(held.pod, held.kind, now_ms)
        else:
            self.usage.update(held.pod, held.kind, now_ms)

    def restore(self, pods: Sequence[RestoredPod]) -> None:
        """Hold all pods of a table row."""
        counted = []
        for held, pod, counted_at_ms in pods:
            self.held[held.pod.uid] = held
            self._count(held.kind.demand, 1)
            if counted_at_ms is not None:
                kind = held.kind if pod is held.pod else kind_of(pod)
                counted.append((pod, kind, counted_at_ms))
        self.usage.restore(counted)
        if self.statistics is not None:
            self.statistics.sum_up(self.held.values())

    def release(self, uid: str, now_ms: int = 0) -> HeldPod | None:
        """Release a pod's room; return the held pod, or None if it was not held."""
        held = self._remove(uid)
        if held is not None:
            self.usage.unassign(uid)
            self._remember_gone(held.pod, now_ms)
        return held

    def _remember_gone(self, pod: Pod, now_ms: int) -> None:
        metric = self.usage.metric
        if metric is None or len(self.gone) >= GONE_MAX:
            return
        for measured in metric.pods:
            if measured.name == pod.name and measured.namespace == pod.namespace:
                self.gone = (*self.gone, GonePod(now_ms, measured.usage))
                return

    def _remove(self, uid: str) -> HeldPod | None:
        held = self.held.pop(uid, None)
        if held is not None:
            self._count(held.kind.demand, -1)
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
