"""Reports of a simulated cluster."""

from typing import Any

import pytest

from simulation.cluster.machines import Machine
from simulation.cluster.state_watch import SimulatedStateWatch
from tests.connectors.ports.state_watch_contract import StateWatchContract, StateWatchWorld
from tests.simulation.cluster.builders import pod
from tests.simulation.cluster.harness import World


class _World(StateWatchWorld):
    def __init__(self) -> None:
        self.cluster = World(budgeted=True).cluster
        self.cluster_name = self.cluster.name
        self._watch = SimulatedStateWatch(self.cluster)

    async def full_list(self, list_id: str) -> list[tuple[str, Any]]:
        return list(self._watch.full_list(list_id))

    async def changes(self) -> list[tuple[str, Any]]:
        return list(self._watch.changes())

    async def create_pod(self) -> str:
        self.cluster.request_node(pod("a"))
        return "a"

    async def bind(self, uid: str) -> str:
        node = self.cluster.machines[0].name
        assert self.cluster.place(self.cluster.waiting_pods[uid], node) is None
        return node


class TestSimulatedStateWatch(StateWatchContract):
    @pytest.fixture
    def world(self) -> StateWatchWorld:
        return _World()


def test_a_node_that_joins_is_reported() -> None:
    world = World()
    world.cluster.add_machine(Machine("n9", 1000, 1 << 30))
    world.connected.publish()
    (state,) = world.of("node-state")
    assert (state.node, state.event, state.list_id) == ("n9", "added", None)
