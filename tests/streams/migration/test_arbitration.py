"""Order of arbitration, and content of commands."""

import json

import pytest

from schemas.messages.evictions import SOFT_EVICTION_ANNOTATION
from schemas.messages.pods import Pod
from streams.migration.gates.protections import MIRROR_ANNOTATION
from tests.streams.cluster.builders import (
    ask,
    at,
    lifecycle,
    policy_record,
    policy_text,
    replica,
    workload,
)
from tests.streams.migration.harness import cluster


def order(*pods: Pod) -> list[str]:
    """uids in the order in which commands leave that are arbitrated at once."""
    moving = cluster(
        policy_text(defaultJobMode="EvictDirectly"), *((each, "node-1") for each in pods)
    )
    moving.say(workload("job-1", owner_kind="Job"), workload("job-2", owner_kind="Job"))
    for each in pods:
        moving.propose(each.uid)
    moving.later()
    return [each.pod.uid for each in moving.commands]


def test_pods_of_lower_classes_and_cheaper_pods_leave_first() -> None:
    cheap = {"controller.kubernetes.io/pod-deletion-cost": "-5"}
    pods = (
        replica("prod", priority=9_500),
        replica("batch", priority=5_500),
        replica("cheap", priority=9_500, annotations=cheap),
    )
    assert order(*pods) == ["batch", "cheap", "prod"]


def test_of_equal_pods_the_youngest_leaves_first() -> None:
    pods = [replica(f"p{age}", f"o{age}", created_at_ms=at(-age)) for age in (30, 10, 20)]
    assert order(*pods) == ["p10", "p20", "p30"]


def test_pods_of_one_job_stay_together() -> None:
    pods = (
        replica("j1", "job-1", kind="Job", priority=1),
        replica("k1", "job-2", kind="Job", priority=2),
        replica("j2", "job-1", kind="Job", priority=3),
    )
    assert order(*pods) == ["j1", "j2", "k1"]


def test_a_job_of_which_pods_are_moving_already_goes_on_first() -> None:
    limits = policy_text(maxMigratingGlobally=2, defaultJobMode="EvictDirectly")
    moving = cluster(
        limits,
        (replica("k1", "job-2", kind="Job", priority=5), "node-1"),
        (replica("a", "job-1", kind="Job", priority=1), "node-1"),
        (replica("k2", "job-2", kind="Job", priority=5), "node-1"),
    )
    moving.say(workload("job-1", owner_kind="Job"), workload("job-2", owner_kind="Job"))
    moving.propose("k1")
    moving.later()
    moving.propose("a")
    moving.say(policy_record(policy_text(defaultJobMode="EvictDirectly", maxMigratingGlobally=3)))
    moving.propose("k2")
    moving.say(policy_record(limits))
    moving.later()
    assert [each.pod.uid for each in moving.commands] == ["k1", "k2"]


def test_a_command_carries_how_and_under_what_conditions() -> None:
    options = {"gracePeriodSeconds": 7}
    moving = cluster(
        policy_text(evictionPolicy="Delete", defaultDeleteOptions=options), (replica("a"), "node-1")
    )
    moving.propose("a", reason="too hot")
    moving.later()
    (command,) = moving.commands
    assert (command.policy, command.grace_period_s, command.reason) == ("Delete", 7, "too hot")
    assert command.retry_until_ms == command.expires_at_ms
    assert command.migration_id == moving.row("a").migration_id


@pytest.mark.parametrize(("interval", "waits"), [("500ms", False), ("1m", True)])
def test_arbitration_is_made_once_an_interval(interval: str, waits: bool) -> None:
    policy = policy_text(arbitrationArgs={"interval": interval}, defaultJobMode="EvictDirectly")
    moving = cluster(policy, (replica("a"), "node-1"), (replica("b"), "node-1"))
    moving.propose("a")
    moving.later()
    moving.propose("b")
    moving.later()
    assert [command.pod.name for command in moving.commands] == ["a"] + ["b"] * (not waits)


def test_a_pods_label_says_how_it_is_evicted() -> None:
    labels = {"koordinator.sh/evict-policy": "SoftEviction"}
    moving = cluster(policy_text(), (replica("a", labels=labels), "node-1"))
    moving.propose("a")
    moving.later()
    (command,) = moving.commands
    assert command.policy == "SoftEviction"
    assert json.loads(command.annotations[SOFT_EVICTION_ANNOTATION])["initiator"] == "loadstream"


def test_a_pod_that_becomes_protected_fails_at_once() -> None:
    moving = cluster(
        policy_text(maxMigratingPerNode=1), *((replica(uid), "node-1") for uid in "abc")
    )
    moving.say(*(ask("migrate", pod=replica(uid)) for uid in "abc"))
    moving.later()
    assert [each.pod.uid for each in moving.commands] == ["a"]
    static = replica("c", annotations={MIRROR_ANNOTATION: ""})
    moving.say(lifecycle("changed", static, "node-1"))
    moving.later()
    assert (moving.row("b").gate, moving.last) == (
        "MaxMigratingPerNode", ("Failed", "ForbiddenMigratePod"),
    )  # fmt: skip
