"""User requests: migrations, pauses, aborts, drains."""

from typing import Any

import pytest

from schemas.messages.pods import Pod
from tests.streams.builders import (
    budget,
    lifecycle,
    migration_policy,
    node,
    outcome,
    pod,
    removed_node,
    replica,
    request,
    user_request,
)
from tests.streams.world import World, world_with_pods

DIRECT = migration_policy(defaultJobMode="EvictDirectly")
A, B = replica("a"), replica("b")


def refusal(world: World, action: Any, **fields: Any) -> str:
    """Why a user's request is refused."""
    (letter,) = world.send_refused(user_request(action, **fields))
    return letter.reason


def test_a_user_migrates_a_pod() -> None:
    world = world_with_pods(DIRECT, (A, "node-1"))
    world.send(user_request("migrate", pod=A, ttl_ms=9_000, reason="bad disk"))
    row = world.migration("a")
    assert (row.trigger, row.cause, row.ttl_ms) == ("request", "bad disk", 9_000)
    world.later()
    assert world.evictions[0].trigger == "request"
    assert world.evictions[0].reason == "bad disk"


def test_a_protected_pod_gets_a_migration_that_has_failed() -> None:
    world = world_with_pods(DIRECT, (replica("a", local_storage=True), "node-1"))
    world.send(user_request("migrate", pod=A))
    assert world.last == ("Failed", "ForbiddenMigratePod")
    assert "local storage" in world.migrations[-1].message
    assert world.state.migrations.lifecycle.registry.find_by_pod("a") is None


@pytest.mark.parametrize(
    ("action", "fields", "why"),
    [
        ("migrate", {}, "pod is missing"),
        ("migrate", {"pod": replica("x")}, "pod x is not known to run on a node"),
        ("migrate", {"pod": B}, "migration m-"),
        (
            "migrate",
            {"pod": A.model_copy(update={"name": "b"})},
            "uid a is that of pod default/a, not of default/b; give the uid of default/b",
        ),
        ("pause", {}, "migration_id and pod are missing; give one of them"),
        ("pause", {"pod": A}, "no migration of a is under way"),
        ("abort", {"migration_id": "m-unknown"}, "no migration of m-unknown is under way"),
        ("resume", {"pod": B}, "is not paused"),
        ("drain", {}, "node is missing"),
        ("drain", {"node": "node-9"}, "node node-9 is not known"),
        ("undrain", {"node": "node-1"}, "node node-1 is not being drained"),
    ],
)
def test_requests_that_cannot_be_fulfilled_are_refused(
    action: Any, fields: dict[str, Any], why: str
) -> None:
    world = world_with_pods(DIRECT, (A, "node-1"), (B, "node-2"))
    world.propose("b")
    assert why in refusal(world, action, **fields)


def test_a_pod_with_an_unexpired_command_is_refused_until_it_expires() -> None:
    world = world_with_pods(DIRECT, (A, "node-1"))
    world.send(user_request("migrate", pod=A, ttl_ms=60_000))
    world.later()
    world.send(user_request("abort", pod=A))
    assert refusal(world, "migrate", pod=A).endswith(
        "of pod a has ended (Aborted), but its command may still be carried out for 59s; send the request again after that"
    )
    world.later(59)
    world.send(user_request("migrate", pod=A))
    assert world.last[0] == "Pending"


def test_a_replacement_is_not_migrated_before_its_migration_ends() -> None:
    world = world_with_pods(migration_policy(), (A, "node-1"))
    world.send(user_request("migrate", pod=A))
    world.later()
    world.send(outcome(world.evictions[0]), lifecycle("deleted", A, "node-1"))
    replacement = replica("r", ready=False)
    world.send(lifecycle("seen", replacement, "node-2"))
    why = f"pod r is the replacement in migration {world.migration('a').migration_id}, which is under way; "
    assert why in refusal(world, "migrate", pod=replacement)
    world.send(lifecycle("changed", replica("r"), "node-2"))
    assert world.last[0] == "Succeeded"
    world.send(user_request("migrate", pod=replacement))
    assert world.last[0] == "Pending"


def test_a_pause_extends_the_deadline_of_a_migration() -> None:
    world = world_with_pods(DIRECT, (A, "node-1"))
    world.propose("a")
    deadline_ms = world.migration("a").deadline_ms
    world.send(user_request("pause", pod=A))
    assert "is already paused" in refusal(world, "pause", pod=A)
    world.later(1_000)
    assert world.evictions == []
    world.send(user_request("resume", migration_id=world.migration("a").migration_id))
    assert world.migration("a").deadline_ms == deadline_ms + 1_000_000
    world.later()
    assert len(world.evictions) == 1


def one_waits() -> tuple[World, Pod]:
    """Two pods are to move, and the rate lets one command out; the other pod has room, and waits."""
    slow = migration_policy(evictQPS=0.001, evictBurst=1)
    world = world_with_pods(slow, (B, "node-1"), (A, "node-1"))
    world.propose("b")
    world.propose("a")
    world.later()
    return world, next(pod for pod in (A, B) if not world.migration(pod.uid).attempts)


def test_a_paused_migration_keeps_its_reservation_until_its_first_deadline() -> None:
    world, pod = one_waits()
    waiting = pod.uid
    reserved = world.migration(waiting).reserved
    assert reserved is not None
    world.send(user_request("pause", pod=pod))
    world.later(298)
    assert world.state.inventory.find_held(reserved.uid) is not None
    world.later()
    assert world.state.inventory.find_held(reserved.uid) is None
    assert [status.reason for status in world.migrations if status.pod.uid == waiting][-1] == (
        "ReservationExpired"
    )
    row = world.migration(waiting)
    assert (row.reserved, row.paused, row.conditions[-1].reason) == (
        None, True, "ReservationExpired",
    )  # fmt: skip
    # The reservation is made again and lasts until the new deadline.
    world.send(user_request("resume", pod=pod))
    world.later()
    row = world.migration(waiting)
    assert row.reserved is not None
    held = world.state.inventory.find_held(row.reserved.uid)
    assert held is not None
    assert held[1].expires_at_ms == row.deadline_ms
    assert row.conditions[-1].status


def test_a_short_pause_extends_the_reservation() -> None:
    world = world_with_pods(migration_policy(), (A, "node-1"))
    world.propose("a")
    world.later()
    world.send(outcome(world.evictions[0]), lifecycle("deleted", A, "node-1"))
    world.send(user_request("pause", pod=A))
    world.later(100)
    world.send(user_request("resume", pod=A))
    world.later(290)
    assert len(world.state.inventory.node_of_pod) == 1
    world.later(10)
    assert world.last == ("Failed", "Timeout")
    assert not world.state.inventory.node_of_pod


def test_room_that_expires_after_the_command_leaves_the_replacement_free_to_go_anywhere() -> None:
    world = world_with_pods(migration_policy(), (A, "node-1"))
    world.propose("a", target="node-3")
    world.later()
    world.send(outcome(world.evictions[0]), lifecycle("deleted", A, "node-1"))
    world.send(user_request("pause", pod=A))
    world.later(300)
    assert not world.state.inventory.node_of_pod
    assert world.last == ("Running", "WaitForPodBindReservation")
    reasons = {condition.type: condition.reason for condition in world.migrations[-1].conditions}
    assert reasons["ReservationScheduled"] == "ReservationExpired"
    new = replica("new")
    world.send(lifecycle("seen", new, "node-2"))
    assert world.last == ("Succeeded", "")


def test_a_pause_has_a_limit() -> None:
    world = world_with_pods(DIRECT, (A, "node-1"))
    world.propose("a")
    world.send(user_request("pause", pod=A))
    world.later(24 * 3600 + 298)
    assert world.migrations[-1].paused
    world.later(10)
    assert world.last == ("Failed", "Timeout")


@pytest.mark.parametrize("action", ["pause", "abort"])
def test_a_pause_or_abort_after_the_command_warns_that_the_pod_may_still_leave(
    action: str,
) -> None:
    world = world_with_pods(DIRECT, (A, "node-1"))
    world.send(user_request("migrate", pod=A))
    world.later()
    world.send(user_request(action, pod=A, reason="not now"))
    text = f"{'paused' if action == 'pause' else 'aborted'} on request: not now; its command was sent before and"
    assert world.migrations[-1].message == f"{text} may still be carried out"


def test_an_abort_before_the_command_releases_the_reservation() -> None:
    world, pod = one_waits()
    assert len(world.state.inventory.node_of_pod) == 4
    world.send(user_request("abort", pod=pod))
    assert world.last == ("Aborted", "Aborted")
    assert len(world.state.inventory.node_of_pod) == 3


def test_a_drain_cordons_the_node_and_evicts_unprotected_pods() -> None:
    daemon = replica("d", "agent", kind="DaemonSet")
    world = world_with_pods(DIRECT, (A, "node-1"), (B, "node-1"), (daemon, "node-1"), nodes=2)
    world.send(user_request("drain", node="node-1", reason="bad fan"))
    (status,) = world.drains
    assert (status.phase, status.pods_left, status.pods_protected) == ("Draining", 2, 1)
    assert status.protected[0].reason == "the pod is owned by a DaemonSet"
    world.send(request(pod("new", required_node="node-1")))
    assert world.decisions[-1].refused_by["NodeUnschedulable"] == 1
    world.later()
    assert sorted(command.pod.uid for command in world.evictions) == ["a", "b"]
    assert world.evictions[0].reason == "node node-1 is being drained: bad fan"
    for command in list(world.evictions):
        world.send(outcome(command))
    world.send(lifecycle("deleted", A, "node-1"), lifecycle("deleted", B, "node-1"))
    world.later()
    assert [drain.phase for drain in world.drains] == ["Draining", "Drained"]
    world.send(user_request("undrain", node="node-1"))
    assert world.drains[-1].phase == "Undrained"
    world.later(5)
    assert (world.decisions[-1].pod.uid, world.decisions[-1].outcome) == ("new", "placed")


def test_a_drain_respects_budgets_and_goes_on_when_they_allow_it() -> None:
    world = world_with_pods(DIRECT, (A, "node-1"), (B, "node-1"))
    world.send(budget(1), user_request("drain", node="node-1"))
    world.later()
    (first,) = world.evictions
    gone = {"a": A, "b": B}[first.pod.uid]
    world.send(outcome(first), lifecycle("deleted", gone, "node-1"))
    world.later()
    assert len(world.evictions) == 1
    world.send(budget(1))
    world.later()
    assert len(world.evictions) == 2


def test_a_cancelled_drain_ends_migrations_without_a_command() -> None:
    world = world_with_pods(migration_policy(maxMigratingPerNode=1), (A, "node-1"), (B, "node-1"))
    world.send(user_request("drain", node="node-1"))
    world.later()
    world.send(user_request("undrain", node="node-1"))
    phases = {status.pod.uid: (status.phase, status.reason) for status in world.migrations}
    assert sorted(phases.values()) == [("Aborted", "Undrained"), ("Running", "Evicting")]


@pytest.mark.parametrize("seconds", [0, 1])
def test_the_drain_of_a_removed_node_ends(seconds: int) -> None:
    world = world_with_pods(DIRECT)
    world.send(user_request("drain", node="node-1"))
    if seconds:
        world.later(seconds)
    world.send(removed_node("node-1"))
    assert [drain.phase for drain in world.drains] == ["Draining", "Drained", "Undrained"]


def test_a_cancelled_drain_ends_migrations_that_wait_for_a_retry() -> None:
    world = world_with_pods(DIRECT, (A, "node-1"))
    world.send(user_request("drain", node="node-1"))
    world.later()
    world.send(outcome(world.evictions[0], "failed"), user_request("undrain", node="node-1"))
    assert world.last == ("Aborted", "Undrained")
    world.later(60)
    assert len(world.evictions) == 1


@pytest.mark.parametrize("by_list", [False, True])
def test_a_drained_node_that_comes_back_before_the_next_tick_takes_pods(by_list: bool) -> None:
    world = world_with_pods(DIRECT)
    world.send(user_request("drain", node="node-1"))
    if by_list:
        world.full_list("node-state", node("node-2"), node("node-3"))
    else:
        world.send(removed_node("node-1"))
    assert world.drains[-1].phase == "Undrained"
    world.send(node("node-1"))
    world.later()
    world.send(request(pod("new", required_node="node-1")))
    assert world.decisions[-1].outcome == "placed"


def test_a_request_may_ignore_windows() -> None:
    window = "maintenance: {windows: [{days: [sun]}]}"
    world = world_with_pods(migration_policy(window), (A, "node-1"), (B, "node-1"))
    world.send(user_request("migrate", pod=A, ignore_windows=True), user_request("migrate", pod=B))
    world.later()
    assert [command.pod.uid for command in world.evictions] == ["a"]
