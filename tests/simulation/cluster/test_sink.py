"""A simulated cluster carries out placements and evictions."""

from collections.abc import Mapping

import pytest

from schemas.messages.pods import OwnerReference, Pod, PodRef
from simulation.cluster.cluster import SimulatedCluster
from simulation.cluster.kubelet import GRACE_MS
from simulation.cluster.machines import Machine
from simulation.cluster.pods import PodPlan
from simulation.cluster.sink import SimulatedSink
from tests.connectors.ports.sink_contract import CLUSTER, NOW_MS, SinkContract, SinkWorld
from tests.simulation.cluster.builders import GIB, pod, reference
from tests.simulation.cluster.harness import World


class _World(SinkWorld):
    node = "n1"

    def __init__(self) -> None:
        machine = Machine(self.node, 1_000_000, 4000 * GIB)
        self.cluster = SimulatedCluster(CLUSTER, [machine], NOW_MS, frozenset({"budgeted"}))
        self.sink = SimulatedSink(self.cluster)
        self.number = 0

    def plan(self, namespace: str) -> PodPlan:
        self.number += 1
        name = f"{namespace}-{self.number}"
        owner = OwnerReference(kind="ReplicaSet", name=name, uid=name, controller=True)
        owned_pod = Pod(namespace=namespace, name=name, uid=name, owners=(owner,))
        return pod(name, pod=owned_pod)

    async def waiting_pod(self) -> PodRef:
        plan = self.plan("default")
        self.cluster.request_node(plan)
        return reference(plan)

    async def running_pod(self, *, budgeted: bool = False) -> PodRef:
        plan = self.plan("budgeted" if budgeted else "default")
        self.cluster.request_node(plan)
        # The pod runs but is not ready, so the budget allows no disruption.
        assert self.cluster.place(plan, self.node) is None
        return reference(plan)

    async def node_of(self, pod: PodRef) -> str | None:
        running = self.cluster.kubelets.find_pod(pod.uid)
        return running.node if running else None

    async def terminates(self, pod: PodRef) -> bool:
        running = self.cluster.kubelets.find_pod(pod.uid)
        return running is None or running.pod.deleting_at_ms is not None

    async def annotations(self, pod: PodRef) -> Mapping[str, str]:
        running = self.cluster.kubelets.find_pod(pod.uid)
        assert running is not None
        return running.pod.annotations


class TestSimulatedSink(SinkContract):
    @pytest.fixture
    def world(self) -> SinkWorld:
        return _World()


def test_an_evicted_pod_terminates_and_its_controller_creates_a_replacement() -> None:
    world = World()
    plan = world.residents[0]
    assert world.evict(plan) == "done"
    (lifecycle,) = world.of("pod-lifecycle")
    assert (lifecycle.event, lifecycle.pod.deleting_at_ms) == ("changed", NOW_MS + GRACE_MS)
    (request,) = world.of("scheduling-requests")
    world.sent.clear()
    world.pass_time(GRACE_MS)
    (deleted,) = world.of("pod-lifecycle")
    assert (deleted.event, deleted.pod.uid) == ("deleted", plan.pod.uid)
    replacement = world.replacement()
    assert replacement.pod == request.pod
    assert replacement.pod.uid != plan.pod.uid
    assert replacement.pod.owners == plan.pod.owners
    assert (replacement.pod.node, replacement.pod.ready) == (None, False)
    assert replacement.requests == plan.requests


def test_a_placement_on_a_node_without_room_fails() -> None:
    cluster = _World().cluster
    assert cluster.place(pod("large", cores=2000), "n1") == (
        "node n1 does not have enough free cpu for pod large"
    )
