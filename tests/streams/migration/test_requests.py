"""What users ask for: migrations, pauses, aborts, drains."""

from typing import Any

import pytest

from schemas.messages.lists import ListBegin, ListEnd
from schemas.messages.pods import Pod
from tests.streams.cluster.builders import (
    CLUSTER,
    ask,
    budget,
    evicted,
    lifecycle,
    node,
    node_gone,
    pod,
    policy_text,
    replica,
    request,
)
from tests.streams.migration.harness import Moving, cluster, refused

DIRECT = policy_text(defaultJobMode="EvictDirectly")
A, B = replica("a"), replica("b")


def test_a_user_migrates_a_pod() -> None:
    moving = cluster(DIRECT, (A, "node-1"))
    moving.say(ask("migrate", pod=A, ttl_ms=9_000, reason="bad disk"))
    row = moving.row("a")
    assert (row.trigger, row.cause, row.ttl_ms) == ("request", "bad disk", 9_000)
    moving.later()
    assert moving.commands[0].trigger == "request"
    assert moving.commands[0].reason == "bad disk"


def test_a_protected_pod_gets_a_migration_that_has_failed() -> None:
    moving = cluster(DIRECT, (replica("a", local_storage=True), "node-1"))
    moving.say(ask("migrate", pod=A))
    assert moving.last == ("Failed", "ForbiddenMigratePod")
    assert "local storage" in moving.reports[-1].message
    assert moving.state.migrations.lifecycle.registry.find_by_pod("a") is None


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
def test_what_cannot_be_done_is_refused(action: Any, fields: dict[str, Any], why: str) -> None:
    moving = cluster(DIRECT, (A, "node-1"), (B, "node-2"))
    moving.propose("b")
    assert why in refused(moving, action, **fields)


def test_a_pod_that_a_command_may_still_take_is_asked_for_later() -> None:
    moving = cluster(DIRECT, (A, "node-1"))
    moving.say(ask("migrate", pod=A, ttl_ms=60_000))
    moving.later()
    moving.say(ask("abort", pod=A))
    assert refused(moving, "migrate", pod=A).endswith(
        "of pod a has ended (Aborted), but its command may still be carried out for 59s; send the request again after that"
    )
    moving.later(59)
    moving.say(ask("migrate", pod=A))
    assert moving.last[0] == "Pending"


def test_a_pod_that_replaces_one_on_its_way_is_not_moved_on_before_that_is_over() -> None:
    moving = cluster(policy_text(), (A, "node-1"))
    moving.say(ask("migrate", pod=A))
    moving.later()
    moving.say(evicted(moving.commands[0]), lifecycle("deleted", A, "node-1"))
    replacement = replica("r", ready=False)
    moving.say(lifecycle("seen", replacement, "node-2"))
    why = f"pod r is the replacement in migration {moving.row('a').migration_id}, which is under way; "
    assert why in refused(moving, "migrate", pod=replacement)
    moving.say(lifecycle("changed", replica("r"), "node-2"))
    assert moving.last[0] == "Succeeded"
    moving.say(ask("migrate", pod=replacement))
    assert moving.last[0] == "Pending"


def test_a_paused_migration_waits_and_its_deadline_with_it() -> None:
    moving = cluster(DIRECT, (A, "node-1"))
    moving.propose("a")
    deadline_ms = moving.row("a").deadline_ms
    moving.say(ask("pause", pod=A))
    assert "is already paused" in refused(moving, "pause", pod=A)
    moving.later(1_000)
    assert moving.commands == []
    moving.say(ask("resume", migration_id=moving.row("a").migration_id))
    assert moving.row("a").deadline_ms == deadline_ms + 1_000_000
    moving.later()
    assert len(moving.commands) == 1


def one_waits() -> tuple[Moving, Pod]:
    """Two pods are to move, and the rate lets one command out; the other pod has room, and waits."""
    slow = policy_text(evictQPS=0.001, evictBurst=1)
    moving = cluster(slow, (B, "node-1"), (A, "node-1"))
    moving.propose("b")
    moving.propose("a")
    moving.later()
    return moving, next(pod for pod in (A, B) if not moving.row(pod.uid).attempts)


def test_a_paused_migration_keeps_room_from_others_until_its_first_deadline_only() -> None:
    moving, pod = one_waits()
    waiting = pod.uid
    reserved = moving.row(waiting).reserved
    assert reserved is not None
    moving.say(ask("pause", pod=pod))
    moving.later(298)
    assert moving.state.inventory.find_held(reserved.uid) is not None
    moving.later()
    assert moving.state.inventory.find_held(reserved.uid) is None
    assert [each.reason for each in moving.reports if each.pod.uid == waiting][-1] == (
        "ReservationExpired"
    )
    row = moving.row(waiting)
    assert (row.reserved, row.paused, row.conditions[-1].reason) == (
        None, True, "ReservationExpired",
    )  # fmt: skip
    # It is looked for anew, and held until the deadline as it is then.
    moving.say(ask("resume", pod=pod))
    moving.later()
    row = moving.row(waiting)
    assert row.reserved is not None
    held = moving.state.inventory.find_held(row.reserved.uid)
    assert held is not None
    assert held[1].expires_at_ms == row.deadline_ms
    assert row.conditions[-1].status


def test_a_short_pause_prolongs_what_is_held() -> None:
    moving = cluster(policy_text(), (A, "node-1"))
    moving.propose("a")
    moving.later()
    moving.say(evicted(moving.commands[0]), lifecycle("deleted", A, "node-1"))
    moving.say(ask("pause", pod=A))
    moving.later(100)
    moving.say(ask("resume", pod=A))
    moving.later(290)
    assert len(moving.state.inventory.node_of_pod) == 1
    moving.later(10)
    assert moving.last == ("Failed", "Timeout")
    assert not moving.state.inventory.node_of_pod


def test_room_that_expires_after_the_command_leaves_the_replacement_free_to_go_anywhere() -> None:
    moving = cluster(policy_text(), (A, "node-1"))
    moving.propose("a", target="node-3")
    moving.later()
    moving.say(evicted(moving.commands[0]), lifecycle("deleted", A, "node-1"))
    moving.say(ask("pause", pod=A))
    moving.later(300)
    assert not moving.state.inventory.node_of_pod
    assert moving.last == ("Running", "WaitForPodBindReservation")
    reasons = {each.type: each.reason for each in moving.reports[-1].conditions}
    assert reasons["ReservationScheduled"] == "ReservationExpired"
    new = replica("new")
    moving.say(lifecycle("seen", new, "node-2"))
    assert moving.last == ("Succeeded", "")


def test_a_pause_does_not_last_for_ever() -> None:
    moving = cluster(DIRECT, (A, "node-1"))
    moving.propose("a")
    moving.say(ask("pause", pod=A))
    moving.later(24 * 3600 + 298)
    assert moving.reports[-1].paused
    moving.later(10)
    assert moving.last == ("Failed", "Timeout")


@pytest.mark.parametrize("action", ["pause", "abort"])
def test_what_is_stopped_after_its_command_says_that_the_pod_may_go_all_the_same(
    action: str,
) -> None:
    moving = cluster(DIRECT, (A, "node-1"))
    moving.say(ask("migrate", pod=A))
    moving.later()
    moving.say(ask(action, pod=A, reason="not now"))
    said = f"{'paused' if action == 'pause' else 'aborted'} on request: not now; its command was sent before and"
    assert moving.reports[-1].message == f"{said} may still be carried out"


def test_an_abort_before_the_command_gives_the_room_back() -> None:
    moving, pod = one_waits()
    assert len(moving.state.inventory.node_of_pod) == 4
    moving.say(ask("abort", pod=pod))
    assert moving.last == ("Aborted", "Aborted")
    assert len(moving.state.inventory.node_of_pod) == 3


def test_a_drain_cordons_the_node_and_moves_what_may_leave() -> None:
    daemon = replica("d", "agent", kind="DaemonSet")
    moving = cluster(DIRECT, (A, "node-1"), (B, "node-1"), (daemon, "node-1"), nodes=2)
    moving.say(ask("drain", node="node-1", reason="bad fan"))
    (status,) = moving.drains
    assert (status.phase, status.pods_left, status.pods_protected) == ("Draining", 2, 1)
    assert status.protected[0].reason == "the pod is owned by a DaemonSet"
    moving.say(request(pod("new", required_node="node-1")))
    assert moving.decisions[-1].refused_by["NodeUnschedulable"] == 1
    moving.later()
    assert sorted(each.pod.uid for each in moving.commands) == ["a", "b"]
    assert moving.commands[0].reason == "node node-1 is being drained: bad fan"
    for command in list(moving.commands):
        moving.say(evicted(command))
    moving.say(lifecycle("deleted", A, "node-1"), lifecycle("deleted", B, "node-1"))
    moving.later()
    assert [each.phase for each in moving.drains] == ["Draining", "Drained"]
    moving.say(ask("undrain", node="node-1"))
    assert moving.drains[-1].phase == "Undrained"
    moving.later(5)
    assert (moving.decisions[-1].pod.uid, moving.decisions[-1].outcome) == ("new", "placed")


def test_a_drain_respects_budgets_and_goes_on_when_they_allow_it() -> None:
    moving = cluster(DIRECT, (A, "node-1"), (B, "node-1"))
    moving.say(budget(1), ask("drain", node="node-1"))
    moving.later()
    (first,) = moving.commands
    gone = {"a": A, "b": B}[first.pod.uid]
    moving.say(evicted(first), lifecycle("deleted", gone, "node-1"))
    moving.later()
    assert len(moving.commands) == 1
    moving.say(budget(1))
    moving.later()
    assert len(moving.commands) == 2


def test_a_drain_that_is_taken_back_ends_what_has_no_command() -> None:
    moving = cluster(policy_text(maxMigratingPerNode=1), (A, "node-1"), (B, "node-1"))
    moving.say(ask("drain", node="node-1"))
    moving.later()
    moving.say(ask("undrain", node="node-1"))
    phases = {each.pod.uid: (each.phase, each.reason) for each in moving.reports}
    assert sorted(phases.values()) == [("Aborted", "Undrained"), ("Running", "Evicting")]


@pytest.mark.parametrize("seconds", [0, 1])
def test_the_drain_of_a_node_that_goes_is_over(seconds: int) -> None:
    moving = cluster(DIRECT)
    moving.say(ask("drain", node="node-1"))
    if seconds:
        moving.later(seconds)
    moving.say(node_gone("node-1"))
    assert [each.phase for each in moving.drains] == ["Draining", "Drained", "Undrained"]


def test_a_drain_that_is_taken_back_ends_what_would_be_commanded_again() -> None:
    moving = cluster(DIRECT, (A, "node-1"))
    moving.say(ask("drain", node="node-1"))
    moving.later()
    moving.say(evicted(moving.commands[0], "failed"), ask("undrain", node="node-1"))
    assert moving.last == ("Aborted", "Undrained")
    moving.later(60)
    assert len(moving.commands) == 1


def test_a_drained_node_that_goes_and_comes_back_takes_pods() -> None:
    moving = cluster(DIRECT)
    moving.say(ask("drain", node="node-1"), node_gone("node-1"))
    moving.later()
    assert moving.drains[-1].phase == "Undrained"
    moving.say(node("node-1"), request(pod("new", required_node="node-1")))
    assert moving.decisions[-1].outcome == "placed"


@pytest.mark.parametrize("by_list", [False, True])
def test_a_drained_node_that_comes_back_before_the_next_tick_takes_pods(by_list: bool) -> None:
    moving = cluster(DIRECT)
    moving.say(ask("drain", node="node-1"))
    if by_list:
        moving.ask(ListBegin(cluster=CLUSTER, list_id="whole"), "node-state")
        for name in ("node-2", "node-3"):
            moving.ask(node(name).model_copy(update={"list_id": "whole"}), "node-state")
        moving.ask(ListEnd(cluster=CLUSTER, list_id="whole"), "node-state")
    else:
        moving.say(node_gone("node-1"))
    assert moving.drains[-1].phase == "Undrained"
    moving.say(node("node-1"))
    moving.later()
    moving.say(request(pod("new", required_node="node-1")))
    assert moving.decisions[-1].outcome == "placed"


def test_a_request_may_ignore_windows() -> None:
    window = "maintenance: {windows: [{days: [sun]}]}"
    moving = cluster(policy_text(window), (A, "node-1"), (B, "node-1"))
    moving.say(ask("migrate", pod=A, ignore_windows=True), ask("migrate", pod=B))
    moving.later()
    assert [each.pod.uid for each in moving.commands] == ["a"]
