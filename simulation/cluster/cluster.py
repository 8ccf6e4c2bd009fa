"""The simulated cluster: pods that wait, pods that run, and replacements of evicted pods.

    request_node, ...  a pod requests a node, or is refused permanently
    place, evict, ...  called by a sink
    add_machine        a node joins
    advance            time passes: pods start, finish and are deleted
    observers          are called for each event, in the order of events

The cluster decides nothing. Bindings and evictions come through `simulation.cluster.sink`, and
`state_watch` reports the state.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from schemas.messages.pods import Pod
from simulation.cluster.kubelet import Kubelets, PodEvent
from simulation.cluster.machines import Machine
from simulation.cluster.owners import Owners
from simulation.cluster.pods import PodPlan


@dataclass(frozen=True, slots=True)
class Eviction:
    pod: Pod
    node: str
    at_ms: int
    replacement: PodPlan | None
    """The pod that the controller created instead; None without a controller."""


class Observer:
    """Handles events of a simulated cluster; subclasses override what they need."""

    def on_request(self, plan: PodPlan) -> None:
        """A pod requests a node."""

    def on_pod_event(self, event: PodEvent) -> None:
        """A pod on a node was bound, started, changed or ended."""

    def on_eviction(self, eviction: Eviction) -> None:
        """A pod begins to terminate; then its replacement requests a node."""

    def on_machine_added(self, machine: Machine) -> None:
        """A node has joined."""


class SimulatedCluster:
    """One cluster, whose time only moves forward."""

    def __init__(
        self,
        name: str,
        machines: Sequence[Machine],
        now_ms: int,
        budgeted: frozenset[str] = frozenset(),
    ) -> None:
        """Workloads in the namespaces `budgeted` have disruption budgets."""
        self.name = name
        self.machines = tuple(machines)
        self.now_ms = now_ms
        self.kubelets = Kubelets(machines)
        self.owners = Owners(name, budgeted)
        self.observers: list[Observer] = []
        self.waiting_pods: dict[str, PodPlan] = {}
        """Waiting pods, by uid."""

    def advance(self, now_ms: int) -> None:
        self.now_ms = max(self.now_ms, now_ms)
        for event in self.kubelets.advance(self.now_ms):
            self._notify_observers(event)

    def request_node(self, plan: PodPlan) -> None:
        """Let a pod wait for a node."""
        self.owners.add_pod(plan.pod)
        self.waiting_pods[plan.pod.uid] = plan
        for observer in self.observers:
            observer.on_request(plan)

    def refuse(self, uid: str) -> None:
        """Remove a waiting pod that was refused permanently."""
        plan = self.waiting_pods.pop(uid, None)
        if plan is not None:
            self.owners.remove_pod(plan.pod)

    def place(self, plan: PodPlan, node: str) -> str | None:
        """Bind a waiting pod; return the reason if the node refuses the pod."""
        event = self.kubelets.admit(plan, node, self.now_ms)
        if isinstance(event, str):
            return event
        self.waiting_pods.pop(plan.pod.uid, None)
        self._notify_observers(event)
        return None

    def evict(self, uid: str) -> None:
        """Terminate a running pod. Its controller creates a replacement, which requests a node."""
        running = self.kubelets.find_pod(uid)
        event = self.kubelets.evict(uid, self.now_ms)
        if running is None or event is None:
            return
        self._notify_observers(event)
        replacement = self.owners.replace_pod(running, self.now_ms)
        eviction = Eviction(running.pod, running.node, self.now_ms, replacement)
        for observer in self.observers:
            observer.on_eviction(eviction)
        if replacement is not None:
            self.request_node(replacement)

    def add_machine(self, machine: Machine) -> None:
        self.machines = (*self.machines, machine)
        self.kubelets.add(machine)
        for observer in self.observers:
            observer.on_machine_added(machine)

    def annotate(self, uid: str, annotations: Mapping[str, str]) -> None:
        event = self.kubelets.annotate(uid, annotations, self.now_ms)
        if event is not None:
            self._notify_observers(event)

    def _notify_observers(self, event: PodEvent) -> None:
        self.owners.handle_event(event)
        for observer in self.observers:
            observer.on_pod_event(event)
