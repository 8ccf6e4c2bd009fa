"""Events of migrations for the memory of moves."""

from typing import Any

import pytest

from schemas.messages.moves import FollowedEvictionRow, RecentMove
from tests.streams.cluster.builders import (
    ask,
    at,
    evicted,
    lifecycle,
    policy_record,
    policy_text,
    replica,
)
from tests.streams.migration.harness import Moving, cluster

FIRST = policy_text()
A, B = replica("a"), replica("b")


def commanded(policy: str = FIRST) -> Moving:
    """A round wants a pod to leave node-1, and its command is out."""
    moving = cluster(policy, (A, "node-1"))
    assert moving.propose("a", target="node-3", pool="__default_node_pool__") is None
    moving.later()
    assert len(moving.commands) == 1
    return moving


def departures(moving: Moving) -> list[RecentMove]:
    """What is remembered of the owner's moves."""
    return [move for row in moving.state.memory.moves.rows.values() for move in row.moves]


def followed(moving: Moving) -> list[FollowedEvictionRow]:
    """Evictions that are followed."""
    return list(moving.state.memory.followed.rows.values())


def outcome(moving: Moving, *given: Any) -> None:
    """The newest command turns out so."""
    moving.say(evicted(moving.commands[-1], *given))


def test_a_dry_eviction_is_not_followed() -> None:
    moving = commanded()
    assert [each.dry_run for each in departures(moving)] == [False]
    outcome(moving, "dry")
    assert moving.last == ("Succeeded", "EvictComplete")
    assert moving.reports[-1].dry_run
    assert followed(moving) == []
    assert [each.dry_run for each in departures(moving)] == [True]
    assert not moving.state.memory.moves.cooldown.rows


def test_a_migration_that_becomes_dry_excludes_no_nodes() -> None:
    moving = commanded()
    outcome(moving, "refused", "a budget forbids it")
    moving.say(policy_record(policy_text("mode: observe")))
    moving.later()
    moving.later()
    assert moving.commands[-1].dry_run
    assert [each.dry_run for each in departures(moving)] == [True]
    outcome(moving, "dry")
    assert followed(moving) == []
    assert [each.dry_run for each in departures(moving)] == [True]


def test_a_pod_that_ends_after_its_migration_became_dry_was_not_moved() -> None:
    moving = commanded()
    outcome(moving, "refused", "a budget forbids it")
    moving.say(policy_record(policy_text("mode: observe")))
    moving.later()
    moving.later()
    moving.say(lifecycle("deleted", A, "node-1"))
    assert moving.last == ("Failed", "MissingPod")
    assert departures(moving) == []
    assert followed(moving) == []


def test_a_move_whose_command_is_carried_out_after_all_is_remembered_and_followed() -> None:
    moving = commanded()
    moving.say(ask("abort", pod=A))
    assert moving.last == ("Aborted", "Aborted")
    # The command can still be carried out.
    assert len(departures(moving)) == 1
    outcome(moving)
    assert len(departures(moving)) == 1
    assert [each.pod.uid for each in followed(moving)] == ["a"]
    moving.say(lifecycle("deleted", A, "node-1"))
    assert len(followed(moving)) == 1


def test_a_move_is_forgotten_when_its_command_expires() -> None:
    for result in ("refused", "dry", ""):
        moving = commanded()
        moving.say(ask("abort", pod=A))
        if result:
            outcome(moving, result)
        else:
            moving.later(400)
        assert departures(moving) == []
        assert followed(moving) == []


def test_a_pod_that_terminates_beyond_the_deadline_has_left() -> None:
    moving = commanded()
    outcome(moving)
    moving.later(400)
    assert moving.last == ("Failed", "Timeout")
    assert len(departures(moving)) == 1
    assert [each.pod.uid for each in followed(moving)] == ["a"]


@pytest.mark.parametrize("mode", ["EvictDirectly", "ReservationFirst"])
def test_a_replacement_that_comes_while_the_pod_still_terminates_is_followed(mode: str) -> None:
    moving = commanded(policy_text(defaultJobMode=mode))
    moving.say(lifecycle("running", replica("other", "job"), "node-2"))
    outcome(moving)
    moving.say(lifecycle("changed", A.model_copy(update={"deleting_at_ms": at(2)}), "node-1"))
    moving.later()
    moving.say(lifecycle("running", replica("new"), "node-3"))
    moving.say(lifecycle("deleted", A, "node-1"))
    (row,) = followed(moving)
    assert row.replacement is not None
    assert (row.replacement.uid, row.target_node) == ("new", "node-3")


def test_pods_of_an_owner_from_before_a_command_replace_none() -> None:
    moving = cluster(policy_text(defaultJobMode="EvictDirectly"), (A, "node-1"), (B, "node-2"))
    moving.propose("a", pool="__default_node_pool__")
    moving.later()
    outcome(moving)
    moving.say(lifecycle("deleted", A, "node-1"))
    assert [each.replacement for each in followed(moving)] == [None]
