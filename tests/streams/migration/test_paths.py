"""A migration's way from a proposal to its end."""

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


def test_a_wish_becomes_a_command_at_the_next_tick_and_ends_when_the_pod_is_gone() -> None:
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


def test_room_is_held_before_the_eviction_and_given_to_the_replacement() -> None:
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


def test_a_replacement_that_is_ready_before_the_pod_is_gone_ends_it_when_it_is() -> None:
    moving = cluster(FIRST, (A, "node-1"))
    moving.propose("a")
    moving.later()
    ready = NEW.model_copy(update={"ready": True})
    moving.say(lifecycle("seen", ready, "node-2"), evicted(moving.commands[0]))
    assert moving.last[0] == "Running"
    moving.say(lifecycle("deleted", A, "node-1"))
    assert moving.last[0] == "Succeeded"


def test_a_refused_eviction_is_tried_again_until_the_deadline_with_growing_waits() -> None:
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


def test_a_policy_with_shorter_back_offs_shortens_those_of_failed_commands() -> None:
    args = {"defaultJobMode": "EvictDirectly", "defaultJobTTL": "10h"}
    long = policy_text("{initialBackoffSeconds: 3600, maxBackoffSeconds: 3600}", **args)
    moving = cluster(long, (replica("a"), "node-1"))
    moving.propose("a")
    moving.later()
    moving.say(evicted(moving.commands[0], "failed"))
    moving.later(10)
    moving.say(policy_record(policy_text("{initialBackoffSeconds: 20}", **args)))
    moving.later(19)
    assert len(moving.commands) == 1
    moving.later(1)
    assert len(moving.commands) == 2


def test_a_command_that_nobody_reports_on_asks_whether_an_evictor_runs() -> None:
    moving = cluster(DIRECT, (A, "node-1"))
    moving.propose("a")
    moving.later()
    moving.later(300)
    assert moving.last == ("Failed", "Timeout")
    assert (
        "command 1 expired without an outcome; check that an evictor runs (loadstream kubernetes evict)"
        in moving.reports[-1].message
    )


def test_a_pod_that_goes_by_itself_before_a_command_is_missing() -> None:
    moving = cluster(FIRST, (A, "node-1"))
    moving.propose("a")
    moving.say(lifecycle("deleted", A, "node-1"))
    assert moving.last == ("Failed", "MissingPod")


def test_a_source_node_that_goes_ends_what_has_no_command_yet() -> None:
    moving = cluster(FIRST, (A, "node-1"))
    moving.propose("a")
    moving.say(node_gone("node-1"))
    moving.later()
    assert moving.last == ("Failed", "MissingNode")


def test_room_on_a_node_that_goes_is_looked_for_elsewhere() -> None:
    tight = policy_text(evictQPS=0.001, evictBurst=1)
    moving = cluster(tight, (replica("b", "other"), "node-2"), (A, "node-1"))
    moving.propose("b")
    moving.later()
    moving.propose("a", target="node-3")
    moving.later()
    assert moving.row("a").target_node == "node-3"
    moving.say(node_gone("node-3"))
    moving.later()
    assert moving.row("a").target_node == "node-2"
    reasons = [c.reason for each in moving.reports for c in each.conditions]
    assert "MissingReservation" in reasons


@pytest.mark.parametrize("mode", ["enforce", "observe"])
def test_the_steps_of_a_reservation_name_the_node_where_the_room_is_now(mode: str) -> None:
    tight = policy_text(f"mode: {mode}", evictQPS=0.001, evictBurst=1)
    moving = cluster(tight, (replica("b", "other"), "node-2"), (A, "node-1"))
    moving.propose("b")
    moving.later()
    moving.propose("a", target="node-3")
    moving.later()
    moving.say(node_gone("node-3"))
    moving.later()
    said = {each.type: each.message for each in moving.reports[-1].conditions}
    text = "room is reserved on node-2" if mode == "enforce" else "dry run: there is room on node-2"
    assert said == {"ReservationCreated": text, "ReservationScheduled": text}
    count = len(moving.reports)
    moving.later()
    assert len(moving.reports) == count


def test_a_dry_run_takes_the_same_way_and_holds_no_room() -> None:
    moving = cluster(policy_text("mode: observe"), (A, "node-1"))
    moving.propose("a")
    moving.later()
    (command,) = moving.commands
    assert command.dry_run
    assert len(moving.state.inventory.node_of_pod) == 1
    moving.say(evicted(command, "dry"))
    assert moving.last == ("Succeeded", "EvictComplete")


def test_a_dry_run_that_nobody_reports_on_ends_after_a_minute() -> None:
    moving = cluster(policy_text("mode: observe"), (A, "node-1"))
    moving.propose("a")
    moving.later()
    moving.later(59)
    assert moving.last[0] == "Running"
    moving.later()
    assert moving.last == ("Succeeded", "EvictComplete")


def test_a_pause_of_the_cluster_stops_commands_and_wishes_at_once() -> None:
    moving = cluster(FIRST, (A, "node-1"), (B, "node-2"))
    moving.propose("a")
    moving.say(policy_record(FIRST, paused=True))
    moving.later()
    assert moving.commands == []
    assert moving.propose("b") == "the cluster is paused"
    moving.say(policy_record(FIRST))
    moving.later()
    assert len(moving.commands) == 1


def test_a_command_waits_no_longer_for_its_repetition_than_a_new_policy_says() -> None:
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


def test_a_users_abort_keeps_the_pod_from_a_second_command_while_the_first_is_alive() -> None:
    moving = cluster(DIRECT, (A, "node-1"))
    moving.propose("a")
    moving.later()
    moving.say(ask("abort", pod=A))
    assert moving.last == ("Aborted", "Aborted")
    assert "may still be carried out" in moving.reports[-1].message
    assert "is under way (Aborted)" in str(moving.propose("a"))
    moving.later(300)
    assert moving.propose("a") is None


def test_a_replacement_gets_its_room_past_those_of_its_kind_that_wait() -> None:
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


def test_a_replacement_that_asks_while_the_cluster_is_paused_gets_its_room_afterwards() -> None:
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


def test_a_replacement_that_goes_is_replaced_by_the_next_one() -> None:
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
def test_a_replacement_of_which_nothing_but_its_request_was_seen_may_be_gone(how: str) -> None:
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
def test_a_replacement_that_somebody_else_binds_is_followed_whichever_record_comes_first(
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


def test_what_was_begun_for_real_turns_dry_when_the_cluster_only_observes() -> None:
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
