"""Pods on the nodes of a simulated cluster: a kubelet for every machine.

A kubelet admits a pod if the node has enough free resources. The pod is bound, runs, ends and is deleted;
an evicted pod terminates first. Kubelets count requests independently of the stages, so they detect
placements that exceed the capacity of a node.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from schemas.messages.pods import Pod
from simulation.cluster.machines import Machine
from simulation.cluster.pods import PodPlan

Event = Literal["bound", "running", "changed", "deleted"]

#: Time from the binding of a pod to its start.
START_MS = 20_000
#: Time that an evicted pod takes to terminate.
GRACE_MS = 30_000


@dataclass(frozen=True, slots=True)
class PodEvent:
    at_ms: int
    event: Event
    pod: Pod
    """State of the pod after the event."""


@dataclass(slots=True)
class RunningPod:
    plan: PodPlan
    pod: Pod
    node: str
    started_ms: int
    terminating: bool = False


@dataclass(slots=True)
class _Node:
    machine: Machine
    pods: dict[str, RunningPod] = field(default_factory=dict)
    requested: dict[str, int] = field(default_factory=dict)


class Kubelets:
    """All machines of a cluster and their pods."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._nodes = {machine.name: _Node(machine) for machine in machines}
        self._node_of: dict[str, str] = {}
        """Node of each pod, by uid."""
        self._queue: list[tuple[int, int, str, Event]] = []
        self._last_number = 0

    def admit(self, plan: PodPlan, node: str, now_ms: int) -> PodEvent | str:
        """Bind a pod; return the event, or the reason why the node refuses the pod."""
        uid = plan.pod.uid
        if uid in self._node_of:
            return f"pod {plan.pod.name} is already on node {self._node_of[uid]}"
        state = self._nodes.get(node)
        if state is None:
            return f"there is no node {node}"
        missing = self._find_missing(state, plan)
        if missing is not None:
            return f"node {node} does not have enough free {missing} for pod {plan.pod.name}"
        started_ms = now_ms + START_MS
        bound = plan.pod.model_copy(update={"node": node, "scheduled_at_ms": now_ms})
        state.pods[uid] = RunningPod(plan, bound, node, started_ms)
        _add_requests(state, plan.requests, 1)
        self._node_of[uid] = node
        self._schedule_event(started_ms, uid, "running")
        self._schedule_event(started_ms + plan.life_ms, uid, "deleted")
        return PodEvent(now_ms, "bound", bound)

    def evict(self, uid: str, now_ms: int) -> PodEvent | None:
        """Terminate a pod; None if the pod does not exist or is already terminating."""
        running = self.find_pod(uid)
        if running is None or running.terminating:
            return None
        running.terminating = True
        running.pod = running.pod.model_copy(
            update={"deleting_at_ms": now_ms + GRACE_MS, "ready": False}
        )
        self._schedule_event(now_ms + GRACE_MS, uid, "deleted")
        return PodEvent(now_ms, "changed", running.pod)

    def annotate(self, uid: str, annotations: Mapping[str, str], now_ms: int) -> PodEvent | None:
        """Add annotations to a pod; None if the pod does not exist."""
        running = self.find_pod(uid)
        if running is None:
            return None
        update = {"annotations": {**running.pod.annotations, **annotations}}
        running.pod = running.pod.model_copy(update=update)
        return PodEvent(now_ms, "changed", running.pod)

    def add(self, machine: Machine) -> None:
        self._nodes[machine.name] = _Node(machine)

    def advance(self, now_ms: int) -> list[PodEvent]:
        """Return the events until `now_ms`, ordered by time."""
        events = []
        while self._queue and self._queue[0][0] <= now_ms:
            at_ms, _, uid, event = heapq.heappop(self._queue)
            pod_event = self._apply_event(at_ms, uid, event)
            if pod_event is not None:
                events.append(pod_event)
        return events

    def find_pod(self, uid: str) -> RunningPod | None:
        """Return a pod that is on a node, or None."""
        node = self._node_of.get(uid)
        return None if node is None else self._nodes[node].pods[uid]

    def sum_requests(self, node: str) -> dict[str, int]:
        """Return the sum of the requests of the pods on a node."""
        return dict(self._nodes[node].requested)

    def list_pods_on(self, node: str) -> tuple[RunningPod, ...]:
        """Return the pods on a node, including terminating pods."""
        return tuple(self._nodes[node].pods.values())

    def _find_missing(self, state: _Node, plan: PodPlan) -> str | None:
        """Return the name of a resource that the node does not have enough of, or None."""
        machine = state.machine
        if len(state.pods) >= machine.allocatable["pods"]:
            return "pods"
        for name, amount in plan.requests.items():
            if machine.allocatable.get(name, 0) - state.requested.get(name, 0) < amount:
                return name
        return None

    def _schedule_event(self, at_ms: int, uid: str, event: Event) -> None:
        self._last_number += 1
        heapq.heappush(self._queue, (at_ms, self._last_number, uid, event))

    def _apply_event(self, at_ms: int, uid: str, event: Event) -> PodEvent | None:
        """Apply a due event; None if the pod is gone or terminates before it runs."""
        running = self.find_pod(uid)
        if running is None or (running.terminating and event != "deleted"):
            return None
        state = self._nodes[running.node]
        change: dict[str, object]
        if event == "running":
            change = {"phase": "Running", "ready": True, "initialized_at_ms": at_ms}
        else:
            change = {"deleting_at_ms": running.pod.deleting_at_ms or at_ms, "ready": False}
        running.pod = running.pod.model_copy(update=change)
        if event == "deleted":
            _add_requests(state, running.plan.requests, -1)
            del state.pods[uid], self._node_of[uid]
        return PodEvent(at_ms, event, running.pod)


def _add_requests(state: _Node, requests: Mapping[str, int], sign: int) -> None:
    for name, amount in requests.items():
        state.requested[name] = state.requested.get(name, 0) + sign * amount
