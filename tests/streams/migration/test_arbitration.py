"""Order of arbitration, and content of commands."""

import json

import pytest

from schemas.messages.commands import SOFT_EVICTION_ANNOTATION
from schemas.messages.pods import Pod
from streams.migration.protections import MIRROR_ANNOTATION
from tests.streams.builders import (
    at,
    lifecycle,
    migration_policy,
    policy_record,
    replica,
    user_request,
    workload,
)
from tests.streams.world import world_with_pods


def order(*pods: Pod) -> list[str]:
    """uids in the order in which commands leave that are arbitrated at once."""
    world = world_with_pods(
        migration_policy(defaultJobMode="EvictDirectly"), *((pod, "node-1") for pod in pods)
    )
    world.send(workload("job-1", owner_kind="Job"), workload("job-2", owner_kind="Job"))
    for pod in pods:
        world.propose(pod.uid)
    world.later()
    return [command.pod.uid for command in world.evictions]


def test_pods_of_lower_classes_and_cheaper_pods_leave_first() -> None:
    cheap = {"controller.kubernetes.io/pod-deletion-cost": "-5"}
    pods = (
        replica("prod", priority=9_500),
        replica("batch", priority=5_500),
        replica("cheap", priority=9_500, annotations=cheap),
    )
    assert order(*pods) == ["batch", "cheap", "prod"]


def test_the_youngest_of_equal_pods_leaves_first() -> None:
    pods = [replica(f"p{age}", f"o{age}", created_at_ms=at(-age)) for age in (30, 10, 20)]
    assert order(*pods) == ["p10", "p20", "p30"]


def test_pods_of_one_job_stay_together() -> None:
    pods = (
        replica("j1", "job-1", kind="Job", priority=1),
        replica("k1", "job-2", kind="Job", priority=2),
        replica("j2", "job-1", kind="Job", priority=3),
    )
    assert order(*pods) == ["j1", "j2", "k1"]


def test_a_job_with_moving_pods_goes_first() -> None:
    limits = migration_policy(maxMigratingGlobally=2, defaultJobMode="EvictDirectly")
    world = world_with_pods(
        limits,
        (replica("k1", "job-2", kind="Job", priority=5), "node-1"),
        (replica("a", "job-1", kind="Job", priority=1), "node-1"),
        (replica("k2", "job-2", kind="Job", priority=5), "node-1"),
    )
    world.send(workload("job-1", owner_kind="Job"), workload("job-2", owner_kind="Job"))
    world.propose("k1")
    world.later()
    world.propose("a")
    world.send(
        policy_record(migration_policy(defaultJobMode="EvictDirectly", maxMigratingGlobally=3))
    )
    world.propose("k2")
    world.send(policy_record(limits))
    world.later()
    assert [command.pod.uid for command in world.evictions] == ["k1", "k2"]


def test_a_command_contains_the_eviction_mode_and_its_conditions() -> None:
    options = {"gracePeriodSeconds": 7}
    world = world_with_pods(
        migration_policy(evictionPolicy="Delete", defaultDeleteOptions=options),
        (replica("a"), "node-1"),
    )
    world.propose("a", reason="too hot")
    world.later()
    (command,) = world.evictions
    assert (command.policy, command.grace_period_s, command.reason) == ("Delete", 7, "too hot")
    assert command.retry_until_ms == command.expires_at_ms
    assert command.migration_id == world.migration("a").migration_id


@pytest.mark.parametrize(("interval", "waits"), [("500ms", False), ("1m", True)])
def test_arbitration_runs_once_per_interval(interval: str, waits: bool) -> None:
    policy = migration_policy(
        arbitrationArgs={"interval": interval}, defaultJobMode="EvictDirectly"
    )
    world = world_with_pods(policy, (replica("a"), "node-1"), (replica("b"), "node-1"))
    world.propose("a")
    world.later()
    world.propose("b")
    world.later()
    assert [command.pod.name for command in world.evictions] == ["a"] + ["b"] * (not waits)


def test_a_label_of_the_pod_sets_the_eviction_mode() -> None:
    labels = {"koordinator.sh/evict-policy": "SoftEviction"}
    world = world_with_pods(migration_policy(), (replica("a", labels=labels), "node-1"))
    world.propose("a")
    world.later()
    (command,) = world.evictions
    assert command.policy == "SoftEviction"
    assert json.loads(command.annotations[SOFT_EVICTION_ANNOTATION])["initiator"] == "loadstream"


def test_the_migration_of_a_pod_that_becomes_protected_fails_at_once() -> None:
    world = world_with_pods(
        migration_policy(maxMigratingPerNode=1), *((replica(uid), "node-1") for uid in "abc")
    )
    world.send(*(user_request("migrate", pod=replica(uid)) for uid in "abc"))
    world.later()
    assert [command.pod.uid for command in world.evictions] == ["a"]
    static = replica("c", annotations={MIRROR_ANNOTATION: ""})
    world.send(lifecycle("changed", static, "node-1"))
    world.later()
    assert (world.migration("b").gate, world.last) == (
        "MaxMigratingPerNode", ("Failed", "ForbiddenMigratePod"),
    )  # fmt: skip
