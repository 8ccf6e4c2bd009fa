"""A simulated cluster of a few machines with its watch and its commands."""

from typing import Any

from schemas.messages.commands import EvictionCommand
from schemas.messages.pods import Pod
from simulation.cluster.cluster import SimulatedCluster
from simulation.cluster.connected_cluster import ConnectedCluster
from simulation.cluster.kubelet import START_MS
from simulation.cluster.pods import PodPlan
from tests.connectors.ports.sink_contract import CLUSTER, NOW_MS, eviction
from tests.simulation.cluster.builders import machines, pod, reference
from tests.streams.builders import controlled_by


class World:
    """A few machines, eight pods of one workload on the hot machine, and all messages that are sent."""

    def __init__(self, *, budgeted: bool = False) -> None:
        namespaces = frozenset({"residents"}) if budgeted else frozenset()
        begin_ms = NOW_MS - START_MS
        self.cluster = SimulatedCluster(CLUSTER, machines(4, 64_000), begin_ms, namespaces)
        self.sent: list[tuple[str, Any]] = []
        self.connected = ConnectedCluster(
            self.cluster, lambda topic, message: self.sent.append((topic, message))
        )
        self.hot = self.cluster.machines[0]
        self.residents = [_resident(number) for number in range(8)]
        for plan in self.residents:
            self.cluster.request_node(plan)
            assert self.cluster.place(plan, self.hot.name) is None
        self.pass_time(START_MS)
        self.connected.begin("list")
        self.sent.clear()
        self.number = 0

    def evict(self, plan: PodPlan, **more: Any) -> str:
        """Send an eviction command and return its result, or None."""
        self.number += 1
        command_id = f"command-{self.number}"
        outcome = self.connected.carry_out(self.command(plan, **{"command_id": command_id, **more}))
        return outcome.result if outcome is not None else ""

    def command(self, plan: PodPlan, **more: Any) -> EvictionCommand:
        values = {"expires_at_ms": self.cluster.now_ms + 60_000, "node": self.hot.name, **more}
        return eviction(reference(plan), **values)

    def of(self, topic: str) -> list[Any]:
        return [message for name, message in self.sent if name == topic]

    def replacement(self) -> PodPlan:
        (plan,) = self.cluster.waiting_pods.values()
        return plan

    def pass_time(self, ms: int) -> None:
        self.cluster.advance(self.cluster.now_ms + ms)
        self.connected.rules.advance_clock(self.cluster.now_ms)
        self.connected.publish()

    def place(self, plan: PodPlan, node: str) -> None:
        """Bind a pod, which starts a moment later."""
        assert self.cluster.place(plan, node) is None
        self.pass_time(START_MS)


def _resident(number: int) -> PodPlan:
    name = f"resident-{number}"
    owned = Pod(
        namespace="residents", name=name, uid=name, labels={"app": "resident"},
        owners=controlled_by("resident"),
    )  # fmt: skip
    return pod(name, pod=owned, life_ms=86_400_000)
