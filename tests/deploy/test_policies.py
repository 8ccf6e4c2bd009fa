"""The example policies on clusters for which they are meant."""

from pathlib import Path

import pytest

from schemas.messages.commands import EvictionCommand
from schemas.messages.metrics import PodMetric
from schemas.policy import read_policy
from streams.placement.registry import KNOWN
from tests.streams.builders import lifecycle, metric, node, pod_metric, policy_record, replica, tick
from tests.streams.world import World

POLICIES = Path(__file__).parents[2] / "deploy/policies"


@pytest.mark.parametrize("path", sorted(POLICIES.glob("*.yaml")), ids=lambda path: path.stem)
def test_an_example_policy_can_be_read(path: Path) -> None:
    assert len(read_policy(path.read_text(encoding="utf-8"), KNOWN).digest) == 16


def list_commands(
    world: World, length_s: int, pods: list[PodMetric], *, cpu: int, memory: int
) -> list[EvictionCommand]:
    """Return the commands for a node with this usage and these pods, next to two cool nodes."""
    for seconds in range(0, length_s, 30):
        world.send(
            metric("hot", cpu=cpu, memory=memory, seconds=seconds, pods=tuple(pods),
                   system_usage={"cpu": 200, "memory": 2**30}),
            metric("calm", cpu=1_000, memory=2**30, seconds=seconds),
            metric("idle", cpu=500, memory=2**30, seconds=seconds),
        )  # fmt: skip
        world.send(tick(seconds), tick(seconds + 15))
    return world.evictions


def test_observe_reports_evictions_in_a_cluster_of_kube_scheduler() -> None:
    world = World()
    document = (POLICIES / "observe.yaml").read_text(encoding="utf-8")
    pods = [replica(f"web-{n}", scheduler="default-scheduler") for n in range(4)]
    world.send(policy_record(document), tick(0), node("hot"), node("calm"), node("idle"))
    world.send(*(lifecycle("running", pod, "hot") for pod in pods))
    usage = [pod_metric(pod.uid, cpu=1_700, memory=2**30) for pod in pods]
    commands = list_commands(world, 1_200, usage, cpu=7_000, memory=4 * 2**30)
    assert commands
    assert all(command.dry_run for command in commands)
    assert {command.node for command in commands} == {"hot"}


def test_a_batch_node_keeps_its_pods_below_its_higher_threshold() -> None:
    """CPU usage is 80 %, and other nodes have room."""
    world = World()
    document = (POLICIES / "enforce.yaml").read_text(encoding="utf-8")
    pods = [replica(f"web-{n}", scheduler="loadstream") for n in range(8)]
    world.send(policy_record(document), tick(0))
    world.send(*(node(name, labels={"pool": "batch"}) for name in ("hot", "calm", "idle")))
    world.send(*(lifecycle("running", pod, "hot") for pod in pods))
    usage = [pod_metric(pod.uid, cpu=775, memory=2**28) for pod in pods]
    assert list_commands(world, 2_400, usage, cpu=6_400, memory=3 * 2**30) == []
