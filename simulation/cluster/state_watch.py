"""Watches a simulated cluster: full lists, changes and scheduling requests."""

from collections import deque
from collections.abc import Iterator

from schemas.base.message import Message
from schemas.messages.decisions import SchedulingRequest
from schemas.messages.lists import LISTED_TOPICS, ListBegin, ListEnd
from schemas.messages.pods import PodLifecycle
from simulation.cluster.cluster import Observer, SimulatedCluster
from simulation.cluster.kubelet import PodEvent
from simulation.cluster.machines import Machine
from simulation.cluster.pods import PodPlan


class SimulatedStateWatch(Observer):
    """Watches a simulated cluster from its creation."""

    def __init__(self, cluster: SimulatedCluster) -> None:
        self.cluster = cluster.name
        self._simulated = cluster
        self._pending: deque[tuple[str, Message]] = deque()
        cluster.observers.append(self)

    def full_list(self, list_id: str) -> Iterator[tuple[str, Message]]:
        """Yield the full lists, topic by topic."""
        for topic in LISTED_TOPICS:
            yield topic, ListBegin(cluster=self.cluster, list_id=list_id)
            for message in self._list_messages(topic, list_id):
                yield topic, message
            yield topic, ListEnd(cluster=self.cluster, list_id=list_id)

    def _list_messages(self, topic: str, list_id: str) -> Iterator[Message]:
        """Yield all machines, or all pods on them with their workloads and budgets."""
        machines, kubelets = self._simulated.machines, self._simulated.kubelets
        if topic == "node-state":
            for machine in machines:
                yield machine.build_node_state(self.cluster, list_id)
            return
        for machine in machines:
            for running in kubelets.list_pods_on(machine.name):
                yield PodLifecycle(
                    cluster=self.cluster, event="seen", list_id=list_id, pod=running.pod
                )
        yield from self._simulated.owners.collect_changes(list_id)

    def changes(self) -> Iterator[tuple[str, Message]]:
        """Yield changed pods and requests, then changed workloads and budgets."""
        while self._pending:
            yield self._pending.popleft()
        for message in self._simulated.owners.collect_changes():
            yield "pod-lifecycle", message

    def on_request(self, plan: PodPlan) -> None:
        request = SchedulingRequest(cluster=self.cluster, pod=plan.pod, requested_at_ms=plan.at_ms)
        self._pending.append(("scheduling-requests", request))

    def on_machine_added(self, machine: Machine) -> None:
        self._pending.append(("node-state", machine.build_node_state(self.cluster, None)))

    def on_pod_event(self, event: PodEvent) -> None:
        lifecycle = PodLifecycle(cluster=self.cluster, event=event.event, pod=event.pod)
        self._pending.append(("pod-lifecycle", lifecycle))
