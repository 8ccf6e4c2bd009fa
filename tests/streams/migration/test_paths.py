"""The steps of a migration from its proposal to its end."""

from itertools import pairwise

import pytest

from tests.streams.cluster.builders import (
    ask,
    evicted,
    lifecycle,
    node,
    node_gone,
    outcome,
    policy_record,
    policy_text,
    replica,
    request,
)
from tests.streams.migration.harness import cluster, full_list

DIRECT = policy_text(defaultJobMode="EvictDirectly")
FIRST = policy_text()
A, B, NEW = replica("a"), replica("b"), replica("new", ready=False, phase="Pending")


def test_a_proposal_becomes_a_command_at_the_next_tick_and_succeeds_when_the_pod_is_gone() -> None:
    moving = cluster(DIRECT, (A, "node-1"), (B, "node-2"))
    assert moving.propose("a") is None
    assert moving.last == ("Pending", "")
    moving.later()
    assert [each.phase for each in moving.reports] == ["Pending", "Running", "Running"]
    (command,) = moving.commands
    assert (command.pod.uid, command.node, command.dry_run, command.attempt) == (
        "a",
        "node-1",
        False,
        1,
    )
    assert command.expires_at_ms == moving.row("a").deadline_ms
    moving.say(evicted(command))
    moving.later()
    assert len(moving.commands) == 1
    moving.say(lifecycle("deleted", A, "node-1"))
    assert moving.last == ("Succeeded", "EvictComplete")
    assert moving.state.migrations.lifecycle.registry.find_by_pod("a") is None


def test_room_is_reserved_before_the_eviction_and_used_by_the_replacement() -> None:
    moving = cluster(FIRST, (A, "node-1"), (B, "node-2"))
    assert moving.propose("a", target="node-3") is None
    moving.later()
    held = moving.state.inventory.find_held(f"reserved-{moving.row('a').migration_id}")
    assert held is not None
    assert held[0].name == "node-3"
    (command,) = moving.commands
    moving.say(evicted(command), lifecycle("deleted", A, "node-1"))
    assert moving.last == ("Running", "WaitForPodBindReservation")
    moving.say(request(NEW))
    assert [each.node for each in moving.decisions] == ["node-3"]
    assert moving.state.inventory.find_held(held[1].pod.uid) is None
    moving.say(lifecycle("bound", NEW, "node-3"))
    assert moving.last == ("Running", "WaitForBoundPodReady")
    moving.say(lifecycle("running", NEW.model_copy(update={"ready": True}), "node-3"))
    assert moving.last == ("Succeeded", "")
    types = [each.type for each in moving.reports[-1].conditions]
    assert types == [
        "ReservationCreated", "ReservationScheduled", "Eviction", "PodBoundReservation",
        "PodScheduled", "ReservationBound", "BoundPodReady",
    ]  # fmt: skip
    assert not moving.state.migrations.lifecycle.registry


def test_an_early_replacement_ends_the_migration_when_the_pod_is_gone() -> None:
    moving = cluster(FIRST, (A, "node-1"))
    moving.propose("a")
    moving.later()
    ready = NEW.model_copy(update={"ready": True})
    moving.say(lifecycle("seen", ready, "node-2"), evicted(moving.commands[0]))
    assert moving.last[0] == "Running"
    moving.say(lifecycle("deleted", A, "node-1"))
    assert moving.last[0] == "Succeeded"


def test_a_refused_eviction_is_retried_with_back_off_until_the_deadline() -> None:
    moving = cluster(DIRECT, (A, "node-1"))
    moving.propose("a")
    times: list[float] = []
    for _ in range(400):
        moving.later()
        if len(moving.commands) > len(times):
            times.append(moving.seconds)
            moving.say(evicted(moving.commands[-1], "refused", "a disruption budget forbids it"))
    waits = [after - before for before, after in pairwise(times)]
    assert waits[:7] == [1, 2, 4, 8, 16, 32, 60]
    assert moving.last == ("Failed", "Timeout")
    assert "a disruption budget forbids it" in moving.reports[-1].message
    assert len({each.command_id for each in moving.commands}) == len(moving.commands)
    assert [each.attempt for each in moving.commands] == list(range(1, len(times) + 1))


def test_a_pod_that_ends_before_its_command_is_missing() -> None:
    moving = cluster(FIRST, (A, "node-1"))
    moving.propose("a")
    moving.say(lifecycle("deleted", A, "node-1"))
    assert moving.last == ("Failed", "MissingPod")


def test_a_removed_source_node_ends_migrations_without_a_command() -> None:
    moving = cluster(FIRST, (A, "node-1"))
    moving.propose("a")
    moving.say(node_gone("node-1"))
    moving.later()
    assert moving.last == ("Failed", "MissingNode")


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_conditions_name_the_current_node_of_the_reservation(mode: str) -> None:
    tight = policy_text(f"mode: {mode}", evictQPS=0.001, evictBurst=1)
    moving = cluster(tight, (replica("b", "other"), "node-2"), (A, "node-1"))
    moving.propose("b")
    moving.later()
    moving.propose("a", target="node-3")
    moving.later()
    moving.say(node_gone("node-3"))
    moving.later()
    assert moving.row("a").target_node == "node-2"
    reasons = [each.reason for report in moving.reports for each in report.conditions]
    assert ("MissingReservation" in reasons) == (mode == "enforce")
    said = {each.type: each.message for each in moving.reports[-1].conditions}
    text = "room is reserved on node-2" if mode == "enforce" else "dry run: there is room on node-2"
    assert said == {"ReservationCreated": text, "ReservationScheduled": text}
    count = len(moving.reports)
    moving.later()
    assert len(moving.reports) == count


def test_a_dry_run_has_the_same_steps_without_a_reservation() -> None:
    moving = cluster(policy_text("mode: observe"), (A, "node-1"))
    moving.propose("a")
    moving.later()
    (command,) = moving.commands
    assert command.dry_run
    assert len(moving.state.inventory.node_of_pod) == 1
    moving.say(evicted(command, "dry"))
    assert moving.last == ("Succeeded", "EvictComplete")


def test_a_dry_run_without_an_outcome_ends_after_a_minute() -> None:
    moving = cluster(policy_text("mode: observe"), (A, "node-1"))
    moving.propose("a")
    moving.later()
    moving.later(59)
    assert moving.last[0] == "Running"
    moving.later()
    assert moving.last == ("Succeeded", "EvictComplete")


def test_a_pause_of_the_cluster_stops_proposals_and_commands() -> None:
    moving = cluster(FIRST, (A, "node-1"), (B, "node-2"))
    moving.propose("a")
    moving.say(policy_record(FIRST, paused=True))
    moving.later()
    assert moving.commands == []
    assert moving.propose("b") == "the cluster is paused"
    moving.say(policy_record(FIRST))
    moving.later()
    assert len(moving.commands) == 1


def test_a_policy_with_a_shorter_back_off_shortens_the_wait_of_a_failed_command() -> None:
    slow = "{initialBackoffSeconds: 200, maxBackoffSeconds: 3600}"
    moving = cluster(policy_text(slow, defaultJobMode="EvictDirectly"), (A, "node-1"))
    moving.propose("a")
    moving.later()
    moving.say(evicted(moving.commands[0], "failed"))
    moving.later()
    moving.say(policy_record(DIRECT))
    moving.later(0.5)
    assert len(moving.commands) == 1
    moving.later(1)
    assert len(moving.commands) == 2
    # A longer wait holds from the next failure on.
    moving.say(evicted(moving.commands[1], "failed"))
    moving.say(policy_record(policy_text(slow, defaultJobMode="EvictDirectly")))
    moving.later(2)
    assert len(moving.commands) == 3


def test_an_aborted_pod_gets_no_second_command_until_the_first_expires() -> None:
    moving = cluster(DIRECT, (A, "node-1"))
    moving.propose("a")
    moving.later()
    moving.say(ask("abort", pod=A))
    assert moving.last == ("Aborted", "Aborted")
    assert "may still be carried out" in moving.reports[-1].message
    assert "is under way (Aborted)" in str(moving.propose("a"))
    moving.later(300)
    assert moving.propose("a") is None


def test_a_replacement_uses_its_reservation_before_waiting_pods() -> None:
    big, other = replica("a", cpu="8"), replica("c", "other", cpu="8")
    moving = cluster(FIRST, (big, "node-1"), (other, "node-3"))
    moving.propose("a")
    moving.later()
    assert moving.row("a").target_node == "node-2"
    moving.say(request(replica("w", "other", cpu="8", ready=False)))
    assert moving.decisions[-1].outcome == "waiting"
    moving.say(evicted(moving.commands[0]), lifecycle("deleted", big, "node-1"))
    assert (moving.decisions[-1].pod.uid, moving.decisions[-1].node) == ("w", "node-1")
    moving.say(request(replica("new", cpu="8", ready=False)))
    assert (moving.decisions[-1].pod.uid, moving.decisions[-1].node) == ("new", "node-2")


def test_a_replacement_requested_during_a_pause_uses_its_reservation_afterwards() -> None:
    moving = cluster(FIRST, (A, "node-1"))
    moving.propose("a", target="node-3")
    moving.later()
    moving.say(evicted(moving.commands[0]), lifecycle("deleted", A, "node-1"))
    moving.say(policy_record(FIRST, paused=True), request(NEW))
    assert moving.decisions[-1].outcome == "waiting"
    moving.say(policy_record(FIRST))
    moving.later()
    assert (moving.decisions[-1].pod.uid, moving.decisions[-1].node) == ("new", "node-3")


def test_two_pods_of_an_owner_get_their_replacements_in_turn() -> None:
    moving = cluster(FIRST, (A, "node-1"), (B, "node-2"))
    moving.propose("a", target="node-3")
    moving.propose("b", target="node-1")
    moving.later()
    for command, gone, name in zip(moving.commands, (A, B), ("node-1", "node-2"), strict=True):
        moving.say(evicted(command), lifecycle("deleted", gone, name))
    moving.say(request(replica("n1", ready=False)), request(replica("n2", ready=False)))
    first, second = moving.row("a").replacement, moving.row("b").replacement
    assert (first.uid, second.uid) == ("n1", "n2")


def test_a_deleted_replacement_is_followed_by_the_next_pod() -> None:
    moving = cluster(FIRST, (A, "node-1"))
    moving.propose("a")
    moving.later()
    moving.say(evicted(moving.commands[0]), lifecycle("deleted", A, "node-1"), request(NEW))
    moving.say(lifecycle("deleted", NEW))
    assert moving.row("a").replacement is None
    ready = replica("next")
    moving.say(lifecycle("seen", ready, "node-2"))
    assert moving.last[0] == "Succeeded"


@pytest.mark.parametrize("how", ["list", "binding", "withdrawn"])
def test_a_replacement_known_only_by_its_request_can_disappear(how: str) -> None:
    moving = cluster(FIRST, (A, "node-1"), (B, "node-1"))
    moving.propose("a", target="node-2")
    moving.later()
    moving.say(evicted(moving.commands[0]), lifecycle("deleted", A, "node-1"))
    if how == "list":
        names = ("node-1", "node-2", "node-3")
        moving.say(*(node(name, unschedulable=True) for name in names), request(NEW))
        assert moving.decisions[-1].outcome == "waiting"
        full_list(moving, "l", lifecycle("seen", B, "node-1"))
    elif how == "binding":
        moving.say(request(NEW))
        moving.say(outcome(moving.decisions[-1], "failed", pod_gone=True))
    else:
        moving.say(request(NEW), request(NEW, withdrawn=True))
    assert moving.decisions[-1].outcome == "withdrawn"
    assert moving.row("a").replacement is None
    moving.say(lifecycle("running", replica("next"), "node-2"))
    assert moving.last == ("Succeeded", "")


@pytest.mark.parametrize("first", ["bound", "withdrawn"])
def test_a_replacement_bound_by_another_scheduler_is_followed(
    first: str,
) -> None:
    moving = cluster(FIRST, (A, "node-1"))
    moving.propose("a", target="node-2")
    moving.later()
    moving.say(evicted(moving.commands[0]), lifecycle("deleted", A, "node-1"), request(NEW))
    records = [lifecycle("bound", NEW, "node-3"), request(NEW, withdrawn=True)]
    moving.say(*(records if first == "bound" else records[::-1]))
    assert moving.row("a").replacement.uid == "new"
    moving.say(lifecycle("running", NEW.model_copy(update={"ready": True}), "node-3"))
    assert moving.last == ("Succeeded", "")


def test_migrations_become_dry_when_the_policy_changes_to_observe() -> None:
    tight = policy_text(evictQPS=0.001, evictBurst=1)
    moving = cluster(tight, (replica("b", "other"), "node-2"), (A, "node-1"))
    moving.propose("b")
    moving.later()
    moving.propose("a")
    moving.later()
    assert moving.row("a").reserved is not None
    moving.say(policy_record(policy_text("mode: observe")))
    moving.later()
    assert moving.commands[-1].dry_run
    assert moving.row("a").reserved is None
