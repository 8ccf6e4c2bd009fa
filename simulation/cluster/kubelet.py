"""What happens to pods that have a node: a kubelet for every machine of a simulated cluster.

A placed pod is admitted if what it requests is free, as a kubelet checks once more; then it is
bound, runs, uses cores and memory, ends, and is deleted; an evicted one terminates for a moment
before. The kubelet counts requests itself, so a placement that takes more than there is shows as a
refusal.
"""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from schemas.messages.pods import Pod
from schemas.messages.usage import NodeUsage, PodUsage
from simulation.cluster.machines import Machine
from simulation.cluster.pods import PodPlan

Event = Literal["bound", "running", "changed", "finished", "deleted"]

#: Time from the binding of a pod to its start: images are there.
START_MS = 20_000
#: A job that has finished is deleted after this time.
CLEAN_UP_MS = 120_000
#: Time that an evicted pod takes to terminate.
GRACE_MS = 30_000


@dataclass(frozen=True, slots=True)
class PodEvent:
    """Something happened to a pod."""

    at_ms: int
    event: Event
    pod: Pod
    """The pod as it is then."""


@dataclass(slots=True)
class RunningPod:
    """A pod on its node."""

    plan: PodPlan
    pod: Pod
    node: str
    started_ms: int
    ended: bool = False
    going: bool = False
    """It was evicted and terminates."""


@dataclass(slots=True)
class _Node:
    machine: Machine
    base: Mapping[str, int] = field(default_factory=dict)
    """Its newest base load."""
    pods: dict[str, RunningPod] = field(default_factory=dict)
    requested: dict[str, int] = field(default_factory=dict)


class Kubelets:
    """All machines of a cluster and the pods on them; time only goes forward."""

    def __init__(self, machines: Sequence[Machine]) -> None:
        self._nodes = {machine.name: _Node(machine) for machine in machines}
        self._node_of: dict[str, str] = {}
        """Node of each pod, by uid."""
        self._queue: list[tuple[int, int, str, Event]] = []
        self._number = 0
        for machine in machines:
            state = self._nodes[machine.name]
            for plan in machine.residents:
                state.pods[plan.pod.uid] = RunningPod(plan, plan.pod, machine.name, plan.at_ms)
                self._node_of[plan.pod.uid] = machine.name
                _take(state, plan.requests, 1)

    def admit(self, plan: PodPlan, node: str, now_ms: int) -> PodEvent | str:
        """A pod was placed: it is bound, or the sentence says why this node does not take it."""
        uid = plan.pod.uid
        if uid in self._node_of:
            return f"pod {plan.pod.name} is on node {self._node_of[uid]} already"
        state = self._nodes.get(node)
        if state is None:
            return f"there is no node {node}"
        missing = lacks(state.machine, state.requested, self.live_pods(node), plan)
        if missing is not None:
            return f"node {node} has too little {missing} free for pod {plan.pod.name}"
        started_ms = now_ms + START_MS
        bound = plan.pod.model_copy(update={"node": node, "scheduled_at_ms": now_ms})
        state.pods[uid] = RunningPod(plan, bound, node, started_ms)
        _take(state, plan.requests, 1)
        self._node_of[uid] = node
        end_ms = started_ms + plan.life_ms
        self._expect(started_ms, uid, "running")
        if plan.job:
            self._expect(end_ms, uid, "finished")
            end_ms += CLEAN_UP_MS
        self._expect(end_ms, uid, "deleted")
        return PodEvent(now_ms, "bound", bound)

    def evict(self, uid: str, now_ms: int) -> PodEvent | None:
        """A pod begins to terminate; None: it is not there, has ended or terminates already."""
        running = self.pod(uid)
        if running is None or running.ended or running.going:
            return None
        running.going = True
        running.pod = running.pod.model_copy(update={"deleting_at_ms": now_ms, "ready": False})
        self._expect(now_ms + GRACE_MS, uid, "deleted")
        return PodEvent(now_ms, "changed", running.pod)

    def annotate(self, uid: str, annotations: Mapping[str, str], now_ms: int) -> PodEvent | None:
        """A pod gets further annotations; None: it is not there."""
        running = self.pod(uid)
        if running is None:
            return None
        update = {"annotations": {**running.pod.annotations, **annotations}}
        running.pod = running.pod.model_copy(update=update)
        return PodEvent(now_ms, "changed", running.pod)

    def add(self, machine: Machine) -> None:
        """A machine joins, with no pods."""
        self._nodes[machine.name] = _Node(machine)

    def remove(self, node: str, now_ms: int) -> list[PodEvent]:
        """A machine is gone, and all pods on it with it."""
        events = [self._happen(now_ms, uid, "deleted") for uid in list(self._nodes[node].pods)]
        del self._nodes[node]
        return [event for event in events if event is not None]

    def advance(self, now_ms: int) -> list[PodEvent]:
        """What has happened until now, in the order of time."""
        events = []
        while self._queue and self._queue[0][0] <= now_ms:
            at_ms, _, uid, event = heapq.heappop(self._queue)
            happened = self._happen(at_ms, uid, event)
            if happened is not None:
                events.append(happened)
        return events

    def pod(self, uid: str) -> RunningPod | None:
        """A pod that is on a node; None: there is none of this uid."""
        node = self._node_of.get(uid)
        return None if node is None else self._nodes[node].pods[uid]

    def requested(self, node: str) -> dict[str, int]:
        """What the pods on a node request together, residents included."""
        return dict(self._nodes[node].requested)

    def live_pods(self, node: str) -> int:
        """How many pods are on a node and have not ended, residents included."""
        return sum(not pod.ended for pod in self._nodes[node].pods.values())

    def pods_on(self, node: str) -> tuple[RunningPod, ...]:
        """Pods on a node that are not deleted, residents included."""
        return tuple(self._nodes[node].pods.values())

    def node_of(self, uid: str) -> str | None:
        """Node of a pod that is on one and is not deleted."""
        return self._node_of.get(uid)

    def total(self, node: str, base: Mapping[str, int], at_ms: int) -> dict[str, int]:
        """What a node with this base load uses, its pods included: no more than it has."""
        state = self._nodes[node]
        wanted, _ = self._wanted(state, base, at_ms)
        return {
            name: min(amount, state.machine.allocatable[name]) for name, amount in wanted.items()
        }

    def sample(self, cluster: str, node: str, base: Mapping[str, int], at_ms: int) -> NodeUsage:
        """What a node with this base load uses, and each pod on it."""
        state = self._nodes[node]
        allocatable = state.machine.allocatable
        all_wanted, running = self._wanted(state, base, at_ms)
        total, kept = {}, {}
        for name, wanted in all_wanted.items():
            # A machine gives no more than it has; what is short is short for all alike.
            total[name] = min(wanted, allocatable[name])
            kept[name] = min(1.0, allocatable[name] / wanted) if wanted else 1.0
        pods = tuple(
            PodUsage(
                namespace=pod.pod.namespace,
                name=pod.pod.name,
                uid=pod.pod.uid,
                usage=_scaled(usage, kept),
                priority_class=pod.plan.priority_class,
            )
            for pod, usage in running
        )
        return NodeUsage(cluster=cluster, node=node, sampled_at_ms=at_ms, usage=total, pods=pods)

    def _wanted(
        self, state: _Node, base: Mapping[str, int], at_ms: int
    ) -> tuple[dict[str, int], list[tuple[RunningPod, dict[str, int]]]]:
        """What a node would use if it had it: in all, and by its pods that run.

        Its residents carry a part of its base load; those that are elsewhere carry it there.
        """
        state.base = base
        total = dict(base)
        for resident in state.machine.residents:
            if resident.carried is not None:
                for name, amount in resident.carried.usage(base).items():
                    total[name] -= amount
        running = []
        for pod in state.pods.values():
            if pod.started_ms <= at_ms and not pod.ended:
                usage = self._usage(pod, at_ms)
                running.append((pod, usage))
                for name, amount in usage.items():
                    total[name] = total.get(name, 0) + amount
        return total, running

    def _usage(self, pod: RunningPod, at_ms: int) -> dict[str, int]:
        if pod.plan.carried is None:
            return pod.plan.usage(at_ms - pod.started_ms)
        return pod.plan.carried.usage(self._nodes[pod.plan.carried.machine].base)

    def _expect(self, at_ms: int, uid: str, event: Event) -> None:
        self._number += 1
        heapq.heappush(self._queue, (at_ms, self._number, uid, event))

    def _happen(self, at_ms: int, uid: str, event: Event) -> PodEvent | None:
        """None: the pod was evicted before, so this does not happen."""
        running = self.pod(uid)
        if running is None or (running.going and event != "deleted"):
            return None
        state = self._nodes[running.node]
        change: dict[str, object]
        if event == "running":
            change = {"phase": "Running", "ready": True, "initialized_at_ms": at_ms}
        elif event == "finished":
            change = {"phase": "Succeeded", "ready": False}
        else:
            change = {"deleting_at_ms": running.pod.deleting_at_ms or at_ms, "ready": False}
        running.pod = running.pod.model_copy(update=change)
        if event in ("finished", "deleted") and not running.ended:
            running.ended = True
            _take(state, running.plan.requests, -1)
        if event == "deleted":
            del state.pods[uid], self._node_of[uid]
        return PodEvent(at_ms, event, running.pod)


def lacks(machine: Machine, requested: Mapping[str, int], pods: int, plan: PodPlan) -> str | None:
    """The resource of which too little is free on a machine; None: the pod fits.

    `requested` and `pods` are those of all pods on it.
    """
    free = machine.allocatable
    if pods >= free["pods"]:
        return "pods"
    for name, amount in plan.requests.items():
        if free.get(name, 0) - requested.get(name, 0) < amount:
            return name
    return None


def _take(state: _Node, requests: Mapping[str, int], sign: int) -> None:
    for name, amount in requests.items():
        state.requested[name] = state.requested.get(name, 0) + sign * amount


def _scaled(amounts: Mapping[str, int], shares: Mapping[str, float]) -> dict[str, int]:
    return {name: int(amounts[name] * share) for name, share in shares.items()}
