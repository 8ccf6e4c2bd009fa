"""The clusters as they really are: nodes, pods, who runs where and what it uses.

Nothing here knows of loadstream. What changes is reported to a listener, which may be a watcher that loses it.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from schemas.nodes import NodeState
from schemas.pods import Container, Pod, PodLifecycle
from schemas.usage import NodeUsage, PodUsage

MIB = 1024**2
SYSTEM_MILLICORES, SYSTEM_BYTES = 300, 512 * MIB

Listener = Callable[[str, Any], None]


@dataclass
class Machine:
    """One node."""

    name: str
    millicores: int
    mebibytes: int
    cordoned: bool = False
    silent_until_ms: int = 0
    """Its agent measures nothing before."""

    def state(self, cluster: str, event: Any) -> NodeState:
        allocatable = {"cpu": f"{self.millicores}m", "memory": f"{self.mebibytes}Mi", "pods": "12"}
        return NodeState(
            cluster=cluster,
            node=self.name,
            event=event,
            allocatable=allocatable,
            unschedulable=self.cordoned,
        )


@dataclass
class Workload:
    """One pod."""

    uid: str
    millicores: int
    mebibytes: int
    priority: int
    ends_ms: int
    eagerness: float
    """Share of its request that it really uses."""
    node: str | None = None
    phase: Any = "Pending"

    def pod(self) -> Pod:
        amounts = {"cpu": f"{self.millicores}m", "memory": f"{self.mebibytes}Mi"}
        return Pod(
            namespace="default",
            name=self.uid,
            uid=self.uid,
            node=self.node,
            priority=self.priority,
            phase=self.phase,
            containers=(Container(requests=amounts, limits=amounts),),
        )


@dataclass
class Cluster:
    """One cluster."""

    name: str
    random: random.Random
    listener: Listener
    machines: dict[str, Machine] = field(default_factory=dict)
    pods: dict[str, Workload] = field(default_factory=dict)
    born: int = 0

    # --- what happens ---------------------------------------------------------------------------

    def add_machine(self) -> None:
        self.born += 1
        machine = Machine(
            f"node-{self.born:02}",
            millicores=self.random.choice((4000, 8000, 16_000)),
            mebibytes=self.random.choice((8192, 16_384)),
        )
        self.machines[machine.name] = machine
        self.listener("node-state", machine.state(self.name, "added"))

    def remove_machine(self, name: str) -> None:
        for pod in [each for each in self.pods.values() if each.node == name]:
            self.delete(pod)
        machine = self.machines.pop(name)
        self.listener("node-state", machine.state(self.name, "removed"))

    def cordon(self, name: str, *, cordoned: bool) -> None:
        machine = self.machines[name]
        machine.cordoned = cordoned
        self.listener("node-state", machine.state(self.name, "changed"))

    def create(self, now_ms: int) -> Workload:
        self.born += 1
        pod = Workload(
            f"{self.name}-{self.born:04}",
            millicores=self.random.choice((250, 500, 1000, 1000, 3000)),
            mebibytes=self.random.choice((256, 1024, 2048)),
            priority=self.random.choice((0, 0, 100, 5500, 9500)),
            ends_ms=now_ms + self.random.randint(20, 200) * 1000,
            eagerness=self.random.uniform(0.2, 1.0),
        )
        self.pods[pod.uid] = pod
        self.report("seen", pod)
        return pod

    def bind(self, uid: str, node: str) -> str | None:
        """Bind a pod as Kubernetes does; why not, if it does not."""
        pod = self.pods.get(uid)
        if pod is None:
            return "pod not found"
        if pod.node is not None:
            return f"pod is assigned to node {pod.node}"
        if node not in self.machines:
            return "node not found"
        pod.node, pod.phase = node, "Running"
        self.report("bound", pod)
        return None

    def finish(self, pod: Workload) -> None:
        pod.phase = "Succeeded"
        self.report("finished", pod)

    def delete(self, pod: Workload) -> None:
        del self.pods[pod.uid]
        self.report("deleted", pod)

    def report(self, event: Any, pod: Workload) -> None:
        self.listener("pod-lifecycle", PodLifecycle(cluster=self.name, event=event, pod=pod.pod()))

    # --- how it is ------------------------------------------------------------------------------

    def running_on(self, node: str) -> list[Workload]:
        return [pod for pod in self.pods.values() if pod.node == node and pod.phase == "Running"]

    def pending(self) -> list[Workload]:
        return [pod for pod in self.pods.values() if pod.node is None]

    def measure(self, machine: Machine, now_ms: int) -> NodeUsage:
        """What a node and its pods use right now."""
        pods = tuple(
            PodUsage(
                namespace="default",
                name=pod.uid,
                uid=pod.uid,
                usage={
                    "cpu": int(pod.millicores * pod.eagerness * self.random.uniform(0.8, 1.2)),
                    "memory": int(pod.mebibytes * MIB * pod.eagerness),
                },
                priority_class="koord-batch" if pod.priority == 5500 else "koord-prod",
            )
            for pod in self.running_on(machine.name)
        )
        return NodeUsage(
            cluster=self.name,
            node=machine.name,
            sampled_at_ms=now_ms,
            usage={
                "cpu": SYSTEM_MILLICORES + sum(pod.usage["cpu"] for pod in pods),
                "memory": SYSTEM_BYTES + sum(pod.usage["memory"] for pod in pods),
            },
            pods=pods,
        )
