"""The simulated cluster: pods that want a node, pods that run, and what replaces evicted ones.

    ask, withdraw      a pod wants a node, or none any more
    place, evict, ...  what a sink does to its pods
    remove_machine, .. nodes die, join and are cordoned
    advance(now)       pods run, finish and are deleted
    observers          are called for each of these, in the order in which they happen

It decides nothing about itself: whatever binds or evicts goes through `simulation.cluster.sink`,
what becomes known of it through `state_watch`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from schemas.messages.pods import Pod
from simulation.cluster.kubelet import Kubelets, PodEvent
from simulation.cluster.machines import Machine
from simulation.cluster.owners import Owners
from simulation.cluster.pods import PodPlan

MachineEvent = Literal["added", "changed", "removed"]


@dataclass(frozen=True, slots=True)
class Eviction:
    """A pod that was evicted."""

    pod: Pod
    node: str
    at_ms: int
    replacement: PodPlan | None
    """The pod that its controller made in its place."""


class Observer:
    """Is called for what happens in a simulated cluster; what is of interest is overridden."""

    def asked(self, plan: PodPlan, *, withdrawn: bool = False) -> None:
        """A pod asks for a node, or asks no more."""

    def happened(self, event: PodEvent) -> None:
        """Something happened to a pod on its node: it was bound, runs, changed or ended."""

    def evicted(self, eviction: Eviction) -> None:
        """A pod begins to terminate, and its replacement asks for a node next."""

    def machine_changed(self, machine: Machine, event: MachineEvent) -> None:
        """A node has joined, is cordoned or not any more, or is gone with all of its pods."""


class SimulatedCluster:
    """One cluster; time only goes forward."""

    def __init__(
        self,
        name: str,
        machines: Sequence[Machine],
        now_ms: int,
        budgeted: frozenset[str] = frozenset(),
    ) -> None:
        """Workloads of the namespaces `budgeted` have disruption budgets."""
        self.name = name
        self.machines = tuple(machines)
        self.now_ms = now_ms
        self.kubelets = Kubelets(machines)
        self.owners = Owners(name, budgeted)
        self.cordoned: set[str] = set()
        """Names of nodes that take no further pods."""
        self.observers: list[Observer] = []
        self.asking: dict[str, PodPlan] = {}
        """Pods that want a node and are not bound, by uid."""

    def advance(self, now_ms: int) -> None:
        """Let everything happen until now."""
        self.now_ms = max(self.now_ms, now_ms)
        for event in self.kubelets.advance(self.now_ms):
            self._happened(event)

    def ask(self, plan: PodPlan) -> None:
        """A pod wants a node."""
        self.owners.wanted(plan.pod)
        self.asking[plan.pod.uid] = plan
        for observer in self.observers:
            observer.asked(plan)

    def give_up(self, uid: str, *, withdrawn: bool) -> None:
        """A pod gets no node; `withdrawn`: its owner gave up, it was not refused."""
        plan = self.asking.pop(uid, None)
        if plan is None:
            return
        self.owners.gone(plan.pod)
        if withdrawn:
            for observer in self.observers:
                observer.asked(plan, withdrawn=True)

    def place(self, plan: PodPlan, node: str) -> str | None:
        """Bind a pod that asks; the sentence says why its node does not take it."""
        event = self.kubelets.admit(plan, node, self.now_ms)
        if isinstance(event, str):
            return event
        self.asking.pop(plan.pod.uid, None)
        self._happened(event)
        return None

    def evict(self, uid: str) -> None:
        """Let a running pod terminate; its controller makes another one, which asks for a node."""
        running = self.kubelets.pod(uid)
        event = self.kubelets.evict(uid, self.now_ms)
        if running is None or event is None:
            return
        self._happened(event)
        replacement = self.owners.replaced(running, self.now_ms)
        eviction = Eviction(running.pod, running.node, self.now_ms, replacement)
        for observer in self.observers:
            observer.evicted(eviction)
        if replacement is not None:
            self.ask(replacement)

    def add_machine(self, machine: Machine) -> None:
        """A node joins, with no pods."""
        self.machines = (*self.machines, machine)
        self.kubelets.add(machine)
        self._machine_changed(machine, "added")

    def remove_machine(self, name: str) -> None:
        """A node dies: its pods are gone, and their controllers make others."""
        (machine,) = (each for each in self.machines if each.name == name)
        lost = [pod for pod in self.kubelets.pods_on(name) if not (pod.ended or pod.going)]
        self.machines = tuple(each for each in self.machines if each.name != name)
        self.cordoned.discard(name)
        for event in self.kubelets.remove(name, self.now_ms):
            self._happened(event)
        self._machine_changed(machine, "removed")
        for running in lost:
            replacement = self.owners.replaced(running, self.now_ms)
            if replacement is not None:
                self.ask(replacement)

    def cordon(self, name: str, *, cordoned: bool) -> None:
        """A node takes no further pods, or takes them again."""
        (machine,) = (each for each in self.machines if each.name == name)
        (self.cordoned.add if cordoned else self.cordoned.discard)(name)
        self._machine_changed(machine, "changed")

    def _machine_changed(self, machine: Machine, event: MachineEvent) -> None:
        for observer in self.observers:
            observer.machine_changed(machine, event)

    def annotate(self, uid: str, annotations: Mapping[str, str]) -> None:
        """Give a running pod further annotations."""
        event = self.kubelets.annotate(uid, annotations, self.now_ms)
        if event is not None:
            self._happened(event)

    def _happened(self, event: PodEvent) -> None:
        self.owners.happened(event)
        for observer in self.observers:
            observer.happened(event)
