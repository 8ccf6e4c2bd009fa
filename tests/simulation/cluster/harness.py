"""A simulated cluster of a few machines, its watch and its commands."""

from typing import Any

from schemas.messages.evictions import EvictionCommand
from simulation.cluster.cluster import SimulatedCluster
from simulation.cluster.connected import ConnectedCluster
from simulation.cluster.fitted import ALIBABA_2018
from simulation.cluster.kubelet import START_MS
from simulation.cluster.machines import make_machines
from simulation.cluster.pods import PodPlan
from tests.connectors.ports.sink_contract import CLUSTER, NOW_MS, eviction
from tests.simulation.cluster.builders import reference


class World:
    """Machines with their residents, everything that is sent about them, and commands to them."""

    def __init__(self, nodes: int = 4, *, budgeted: bool = False) -> None:
        namespaces = frozenset({"residents"}) if budgeted else frozenset()
        machines = make_machines(nodes, 1, ALIBABA_2018, NOW_MS)
        self.cluster = SimulatedCluster(CLUSTER, machines, NOW_MS, namespaces)
        self.sent: list[tuple[str, Any]] = []
        self.connected = ConnectedCluster(
            self.cluster, lambda topic, message: self.sent.append((topic, message))
        )
        self.connected.begin("list")
        self.sent.clear()
        self.hot = next(machine for machine in machines if machine.temper == "hot")
        self.number = 0

    def evict(self, plan: PodPlan, **more: Any) -> str:
        """Command an eviction; its result, or nothing."""
        self.number += 1
        command_id = f"command-{self.number}"
        outcome = self.connected.carry_out(self.command(plan, **{"command_id": command_id, **more}))
        return outcome.result if outcome is not None else ""

    def command(self, plan: PodPlan, **more: Any) -> EvictionCommand:
        """An eviction of a pod from the hot machine."""
        values = {"expires_at_ms": self.cluster.now_ms + 60_000, "node": self.hot.name, **more}
        return eviction(reference(plan), **values)

    def of(self, topic: str) -> list[Any]:
        """What was sent to a topic."""
        return [message for name, message in self.sent if name == topic]

    def replacement(self) -> PodPlan:
        """The pod that asks for a node now."""
        (plan,) = self.cluster.asking.values()
        return plan

    def pass_time(self, ms: int) -> None:
        """It is later."""
        self.cluster.advance(self.cluster.now_ms + ms)
        self.connected.rules.clock(self.cluster.now_ms)
        self.connected.publish()

    def place(self, plan: PodPlan, node: str) -> None:
        """A pod is bound, and runs a moment later."""
        assert self.cluster.place(plan, node) is None
        self.pass_time(START_MS)
