"""What is reported of a simulated cluster."""

import pytest

from simulation.cluster.state_watch import SimulatedStateWatch
from tests.connectors.ports.state_watch_contract import StateWatchContract, StateWatchWorld
from tests.simulation.cluster.builders import pod
from tests.simulation.cluster.harness import World


class _World(StateWatchWorld):
    def __init__(self) -> None:
        self.cluster = World(budgeted=True).cluster
        self.watch = SimulatedStateWatch(self.cluster)

    async def create_pod(self) -> str:
        self.cluster.ask(pod("a"))
        return "a"

    async def bind(self, uid: str) -> str:
        node = self.cluster.machines[0].name
        assert self.cluster.place(self.cluster.asking[uid], node) is None
        return node


class TestSimulatedStateWatch(StateWatchContract):
    @pytest.fixture
    def world(self) -> StateWatchWorld:
        return _World()


def test_a_pod_that_asks_no_more_is_withdrawn_at_the_time_of_the_cluster() -> None:
    world = World()
    world.cluster.ask(pod("a"))
    world.pass_time(60_000)
    world.cluster.give_up("a", withdrawn=True)
    world.cluster.give_up("a", withdrawn=True)
    world.connected.publish()
    asked, withdrawn = world.of("scheduling-requests")
    assert not asked.withdrawn
    assert withdrawn.withdrawn
    assert withdrawn.requested_at_ms == asked.requested_at_ms + 60_000
    assert world.cluster.asking == {}


def test_a_node_that_dies_takes_its_pods_with_it_and_comes_back_empty() -> None:
    world = World()
    machine = world.cluster.machines[0]
    world.cluster.ask(pod("a"))
    assert world.cluster.place(world.cluster.asking["a"], machine.name) is None
    world.cluster.cordon(machine.name, cordoned=True)
    world.cluster.remove_machine(machine.name)
    world.cluster.add_machine(machine)
    world.connected.publish()
    assert world.of("pod-lifecycle")[-1].event == "deleted"
    states = [each for each in world.of("node-state") if each.node == machine.name]
    assert [each.event for each in states] == ["changed", "removed", "added"]
    assert [each.unschedulable for each in states] == [True, False, False]
    assert world.cluster.kubelets.pods_on(machine.name) == ()
    assert world.cluster.machines[-1] == machine
