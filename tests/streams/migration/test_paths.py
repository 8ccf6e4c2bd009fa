"""The steps of a migration from its proposal to its end."""

from itertools import pairwise

import pytest

from schemas.base.message import Message
from tests.streams.builders import (
    lifecycle,
    migration_policy,
    node,
    outcome,
    policy_record,
    removed_node,
    replica,
    request,
    user_request,
)
from tests.streams.world import world_with_pods

DIRECT = migration_policy(defaultJobMode="EvictDirectly")
FIRST = migration_policy()
A, B, NEW = replica("a"), replica("b"), replica("new", ready=False, phase="Pending")


def test_a_proposal_becomes_a_command_at_the_next_tick_and_succeeds_when_the_pod_is_gone() -> None:
    world = world_with_pods(DIRECT, (A, "node-1"), (B, "node-2"))
    assert world.propose("a") is None
    assert world.last == ("Pending", "")
    world.later()
    assert [status.phase for status in world.migrations] == ["Pending", "Running", "Running"]
    (command,) = world.evictions
    assert (command.pod.uid, command.node, command.dry_run, command.attempt) == (
        "a",
        "node-1",
        False,
        1,
    )
    assert command.expires_at_ms == world.migration("a").deadline_ms
    world.send(outcome(command))
    world.later()
    assert len(world.evictions) == 1
    world.send(lifecycle("deleted", A, "node-1"))
    assert world.last == ("Succeeded", "EvictComplete")
    assert world.state.migrations.lifecycle.registry.find_by_pod("a") is None


def test_room_is_reserved_before_the_eviction_and_used_by_the_replacement() -> None:
    world = world_with_pods(FIRST, (A, "node-1"), (B, "node-2"))
    assert world.propose("a", target="node-3") is None
    world.later()
    held = world.state.inventory.find_held(f"reserved-{world.migration('a').migration_id}")
    assert held is not None
    assert held[0].name == "node-3"
    (command,) = world.evictions
    world.send(outcome(command), lifecycle("deleted", A, "node-1"))
    assert world.last == ("Running", "WaitForPodBindReservation")
    world.send(request(NEW))
    assert [decision.node for decision in world.decisions] == ["node-3"]
    assert world.state.inventory.find_held(held[1].pod.uid) is None
    world.send(lifecycle("bound", NEW, "node-3"))
    assert world.last == ("Running", "WaitForBoundPodReady")
    world.send(lifecycle("running", NEW.model_copy(update={"ready": True}), "node-3"))
    assert world.last == ("Succeeded", "")
    types = [condition.type for condition in world.migrations[-1].conditions]
    assert types == [
        "ReservationCreated", "ReservationScheduled", "Eviction", "PodBoundReservation",
        "PodScheduled", "ReservationBound", "BoundPodReady",
    ]  # fmt: skip
    assert not world.state.migrations.lifecycle.registry


def test_an_early_replacement_ends_the_migration_when_the_pod_is_gone() -> None:
    world = world_with_pods(FIRST, (A, "node-1"))
    world.propose("a")
    world.later()
    ready = NEW.model_copy(update={"ready": True})
    world.send(lifecycle("seen", ready, "node-2"), outcome(world.evictions[0]))
    assert world.last[0] == "Running"
    world.send(lifecycle("deleted", A, "node-1"))
    assert world.last[0] == "Succeeded"


def test_a_refused_eviction_is_retried_with_back_off_until_the_deadline() -> None:
    world = world_with_pods(DIRECT, (A, "node-1"))
    world.propose("a")
    times: list[float] = []
    for _ in range(400):
        world.later()
        if len(world.evictions) > len(times):
            times.append(world.seconds)
            world.send(outcome(world.evictions[-1], "refused", "a disruption budget forbids it"))
    waits = [after - before for before, after in pairwise(times)]
    assert waits[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert world.last == ("Failed", "Timeout")
    assert "a disruption budget forbids it" in world.migrations[-1].message
    assert len({command.command_id for command in world.evictions}) == len(world.evictions)
    assert [command.attempt for command in world.evictions] == list(range(1, len(times) + 1))


@pytest.mark.parametrize(
    ("gone", "reason"),
    [(lifecycle("deleted", A, "node-1"), "MissingPod"), (removed_node("node-1"), "MissingNode")],
)
def test_a_migration_without_a_command_ends_with_its_pod_or_node(
    gone: Message, reason: str
) -> None:
    world = world_with_pods(FIRST, (A, "node-1"))
    world.propose("a")
    world.send(gone)
    world.later()
    assert world.last == ("Failed", reason)


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_conditions_name_the_current_node_of_the_reservation(mode: str) -> None:
    tight = migration_policy(f"mode: {mode}", evictQPS=0.001, evictBurst=1)
    world = world_with_pods(tight, (replica("b", "other"), "node-2"), (A, "node-1"))
    world.propose("b")
    world.later()
    world.propose("a", target="node-3")
    world.later()
    world.send(removed_node("node-3"))
    world.later()
    assert world.migration("a").target_node == "node-2"
    reasons = [condition.reason for report in world.migrations for condition in report.conditions]
    assert ("MissingReservation" in reasons) == (mode == "enforce")
    messages = {condition.type: condition.message for condition in world.migrations[-1].conditions}
    text = "room is reserved on node-2" if mode == "enforce" else "dry run: there is room on node-2"
    assert messages == {"ReservationCreated": text, "ReservationScheduled": text}
    count = len(world.migrations)
    world.later()
    assert len(world.migrations) == count


def test_a_dry_run_has_the_same_steps_without_a_reservation() -> None:
    world = world_with_pods(migration_policy("mode: observe"), (A, "node-1"))
    world.propose("a")
    world.later()
    (command,) = world.evictions
    assert command.dry_run
    assert len(world.state.inventory.node_of_pod) == 1
    world.send(outcome(command, "dry"))
    assert world.last == ("Succeeded", "EvictComplete")


def test_a_dry_run_without_an_outcome_ends_after_a_minute() -> None:
    world = world_with_pods(migration_policy("mode: observe"), (A, "node-1"))
    world.propose("a")
    world.later()
    world.later(59)
    assert world.last[0] == "Running"
    world.later()
    assert world.last == ("Succeeded", "EvictComplete")


def test_a_pause_of_the_cluster_stops_proposals_and_commands() -> None:
    world = world_with_pods(FIRST, (A, "node-1"), (B, "node-2"))
    world.propose("a")
    world.send(policy_record(FIRST, paused=True))
    world.later()
    assert world.evictions == []
    assert world.propose("b") == "the cluster is paused"
    world.send(policy_record(FIRST))
    world.later()
    assert len(world.evictions) == 1


def test_a_policy_with_a_shorter_back_off_shortens_the_wait_of_a_failed_command() -> None:
    slow = "{initialBackoffSeconds: 200, maxBackoffSeconds: 3600}"
    world = world_with_pods(migration_policy(slow, defaultJobMode="EvictDirectly"), (A, "node-1"))
    world.propose("a")
    world.later()
    world.send(outcome(world.evictions[0], "failed"))
    world.later()
    world.send(policy_record(DIRECT))
    world.later(0.5)
    assert len(world.evictions) == 1
    world.later(1)
    assert len(world.evictions) == 2
    # A longer wait holds from the next failure on.
    world.send(outcome(world.evictions[1], "failed"))
    world.send(policy_record(migration_policy(slow, defaultJobMode="EvictDirectly")))
    world.later(2)
    assert len(world.evictions) == 3


def test_an_aborted_pod_gets_no_second_command_until_the_first_expires() -> None:
    world = world_with_pods(DIRECT, (A, "node-1"))
    world.propose("a")
    world.later()
    world.send(user_request("abort", pod=A))
    assert world.last == ("Aborted", "Aborted")
    assert "may still be carried out" in world.migrations[-1].message
    assert "is under way (Aborted)" in str(world.propose("a"))
    world.later(300)
    assert world.propose("a") is None


def test_a_replacement_uses_its_reservation_before_waiting_pods() -> None:
    big, other = replica("a", cpu="8"), replica("c", "other", cpu="8")
    world = world_with_pods(FIRST, (big, "node-1"), (other, "node-3"))
    world.propose("a")
    world.later()
    assert world.migration("a").target_node == "node-2"
    world.send(request(replica("w", "other", cpu="8", ready=False)))
    assert world.decisions[-1].outcome == "waiting"
    world.send(outcome(world.evictions[0]), lifecycle("deleted", big, "node-1"))
    assert (world.decisions[-1].pod.uid, world.decisions[-1].node) == ("w", "node-1")
    world.send(request(replica("new", cpu="8", ready=False)))
    assert (world.decisions[-1].pod.uid, world.decisions[-1].node) == ("new", "node-2")


def test_a_replacement_requested_during_a_pause_uses_its_reservation_afterwards() -> None:
    world = world_with_pods(FIRST, (A, "node-1"))
    world.propose("a", target="node-3")
    world.later()
    world.send(outcome(world.evictions[0]), lifecycle("deleted", A, "node-1"))
    world.send(policy_record(FIRST, paused=True), request(NEW))
    assert world.decisions[-1].outcome == "waiting"
    world.send(policy_record(FIRST))
    world.later()
    assert (world.decisions[-1].pod.uid, world.decisions[-1].node) == ("new", "node-3")


def test_two_pods_of_an_owner_get_their_replacements_in_turn() -> None:
    world = world_with_pods(FIRST, (A, "node-1"), (B, "node-2"))
    world.propose("a", target="node-3")
    world.propose("b", target="node-1")
    world.later()
    for command, gone, name in zip(world.evictions, (A, B), ("node-1", "node-2"), strict=True):
        world.send(outcome(command), lifecycle("deleted", gone, name))
    world.send(request(replica("n1", ready=False)), request(replica("n2", ready=False)))
    first, second = world.migration("a").replacement, world.migration("b").replacement
    assert (first.uid, second.uid) == ("n1", "n2")


def test_a_deleted_replacement_is_followed_by_the_next_pod() -> None:
    world = world_with_pods(FIRST, (A, "node-1"))
    world.propose("a")
    world.later()
    world.send(outcome(world.evictions[0]), lifecycle("deleted", A, "node-1"), request(NEW))
    world.send(lifecycle("deleted", NEW))
    assert world.migration("a").replacement is None
    ready = replica("next")
    world.send(lifecycle("seen", ready, "node-2"))
    assert world.last[0] == "Succeeded"


@pytest.mark.parametrize("how", ["list", "binding", "withdrawn"])
def test_a_replacement_known_only_by_its_request_can_disappear(how: str) -> None:
    world = world_with_pods(FIRST, (A, "node-1"), (B, "node-1"))
    world.propose("a", target="node-2")
    world.later()
    world.send(outcome(world.evictions[0]), lifecycle("deleted", A, "node-1"))
    if how == "list":
        names = ("node-1", "node-2", "node-3")
        world.send(*(node(name, unschedulable=True) for name in names), request(NEW))
        assert world.decisions[-1].outcome == "waiting"
        world.full_list("pod-lifecycle", lifecycle("seen", B, "node-1"))
    elif how == "binding":
        world.send(request(NEW))
        world.send(outcome(world.decisions[-1], "failed", pod_gone=True))
    else:
        world.send(request(NEW), request(NEW, withdrawn=True))
    assert world.decisions[-1].outcome == "withdrawn"
    assert world.migration("a").replacement is None
    world.send(lifecycle("running", replica("next"), "node-2"))
    assert world.last == ("Succeeded", "")


@pytest.mark.parametrize("first", ["bound", "withdrawn"])
def test_a_replacement_bound_by_another_scheduler_is_followed(
    first: str,
) -> None:
    world = world_with_pods(FIRST, (A, "node-1"))
    world.propose("a", target="node-2")
    world.later()
    world.send(outcome(world.evictions[0]), lifecycle("deleted", A, "node-1"), request(NEW))
    records = [lifecycle("bound", NEW, "node-3"), request(NEW, withdrawn=True)]
    world.send(*(records if first == "bound" else records[::-1]))
    assert world.migration("a").replacement.uid == "new"
    world.send(lifecycle("running", NEW.model_copy(update={"ready": True}), "node-3"))
    assert world.last == ("Succeeded", "")


def test_migrations_become_dry_when_the_policy_changes_to_observe() -> None:
    tight = migration_policy(evictQPS=0.001, evictBurst=1)
    world = world_with_pods(tight, (replica("b", "other"), "node-2"), (A, "node-1"))
    world.propose("b")
    world.later()
    world.propose("a")
    world.later()
    assert world.migration("a").reserved is not None
    world.send(policy_record(migration_policy("mode: observe")))
    world.later()
    assert world.evictions[-1].dry_run
    assert world.migration("a").reserved is None
