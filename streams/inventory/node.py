"""One node: what Kubernetes says of it and what is held there.

Sums of what the node's pods request and are limited to are kept as pods come and go, so that no
decision walks over pods. A pod is held from the moment at which a decision reserves its room, or at
which it is seen bound, until it is finished, deleted or given up.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from schemas.base.capacity import node_capacity
from schemas.base.quantities import amounts
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Pod
from streams.inventory.demand import PodDemand
from streams.inventory.load import Lacking, NodeLoad
from streams.inventory.node_moments import NodeMoments


@dataclass(frozen=True, slots=True)
class Held:
    """A pod that takes room on a node."""

    pod: Pod
    demand: PodDemand
    assigned_at_ms: int
    decision_id: str | None = None
    """The placement decision that reserved the room."""
    expires_at_ms: int | None = None
    """The room is given up then, unless the pod's lifecycle confirms it before; none: confirmed."""
    requested_at_ms: int | None = None
    """When the pod asked for a node, if a decision of ours put it here."""
    attempt: int = 0
    """How many attempts to place or to bind it had failed by then."""
    sequence: int = 0
    """How many records of the cluster had been applied when it was taken in."""
    list_id: str | None = None
    """The full list that named it last."""
    place: int = 0
    """Orders the pods of a node: those taken in later have greater ones. 0: not held yet."""

    @property
    def for_replacement(self) -> bool:
        """The room is kept for a pod that its owner has not made yet; no list of pods can name it."""
        return self.expires_at_ms is not None and self.decision_id is None


class Node:
    """State of one node; rows of plugin columns are derived from it."""

    __slots__ = (
        "allocatable",
        "assumed",
        "capacity",
        "cordoned",
        "fresh",
        "held",
        "lacking",
        "limited",
        "limits",
        "list_id",
        "load",
        "moments",
        "name",
        "ports",
        "requested",
        "row",
        "state",
        "unlimited",
    )

    def __init__(self, name: str, load: NodeLoad) -> None:
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
        self.lacking: tuple[Lacking, ...] = ()
        """Statistics in whose place its pods' estimates are taken."""
        self.allocatable: dict[str, int] = {}
        """Millicores, bytes, pieces: what pods may request."""
        self.capacity: Mapping[str, int] = {}
        """The same before overcommitment: what usage is a share of."""
        self.held: dict[str, Held] = {}
        """By pod uid."""
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
        self.load = load
        self.moments: NodeMoments | None = None
        """What it is going to use, by the lives of its pods; none: no plugin asks."""

    def describe(self, state: NodeState | None) -> None:
        """Take over what Kubernetes says."""
        self.state = state
        self.allocatable = {} if state is None else amounts(state.allocatable)
        self.capacity = node_capacity(self.allocatable, {} if state is None else state.annotations)
        self.load.describe(state)

    def hold(self, held: Held) -> None:
        """Take room for a pod; a pod that is held already is replaced."""
        self.release(held.pod.uid)
        self.held[held.pod.uid] = held
        self._count(held.demand, 1)
        if self.moments is not None:
            self.moments.add(held)

    def release(self, uid: str) -> Held | None:
        """Give a pod's room back."""
        held = self.held.pop(uid, None)
        if held is not None:
            self._count(held.demand, -1)
            if self.moments is not None:
                self.moments.remove(held)
        return held

    def usage_figures(self) -> list[tuple[float, float]] | None:
        """Mean and variance of what it is going to use, by resource in units and their squares;
        none: no plugin asks."""
        return None if self.moments is None else self.moments.figures()

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
