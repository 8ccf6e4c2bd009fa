"""Events of migrations for the memory of moves."""

import pytest

from schemas.messages.moves import FollowedEvictionRow, RecentMove
from tests.streams.builders import (
    at,
    lifecycle,
    migration_policy,
    outcome,
    policy_record,
    replica,
    user_request,
)
from tests.streams.world import World, world_with_pods

FIRST = migration_policy()
A, B = replica("a"), replica("b")


def commanded(policy: str = FIRST) -> World:
    """A round wants a pod to leave node-1, and its command is out."""
    world = world_with_pods(policy, (A, "node-1"))
    assert world.propose("a", target="node-3", pool="__default_node_pool__") is None
    world.later()
    assert len(world.evictions) == 1
    return world


def departures(world: World) -> list[RecentMove]:
    """Remembered moves of the owner."""
    return [move for row in world.state.memory.moves.rows.values() for move in row.moves]


def followed(world: World) -> list[FollowedEvictionRow]:
    """Evictions that are followed."""
    return list(world.state.memory.followed.rows.values())


def test_a_dry_eviction_is_not_followed() -> None:
    world = commanded()
    assert [event.dry_run for event in departures(world)] == [False]
    world.send(outcome(world.evictions[-1], "dry"))
    assert world.last == ("Succeeded", "EvictComplete")
    assert world.migrations[-1].dry_run
    assert followed(world) == []
    assert [event.dry_run for event in departures(world)] == [True]
    assert not world.state.memory.moves.cooldown.rows


def test_a_migration_that_becomes_dry_excludes_no_nodes() -> None:
    world = commanded()
    world.send(outcome(world.evictions[-1], "refused", "a budget forbids it"))
    world.send(policy_record(migration_policy("mode: observe")))
    world.later()
    world.later()
    assert world.evictions[-1].dry_run
    assert [event.dry_run for event in departures(world)] == [True]
    world.send(outcome(world.evictions[-1], "dry"))
    assert followed(world) == []
    assert [event.dry_run for event in departures(world)] == [True]


def test_a_pod_that_ends_after_its_migration_became_dry_was_not_moved() -> None:
    world = commanded()
    world.send(outcome(world.evictions[-1], "refused", "a budget forbids it"))
    world.send(policy_record(migration_policy("mode: observe")))
    world.later()
    world.later()
    world.send(lifecycle("deleted", A, "node-1"))
    assert world.last == ("Failed", "MissingPod")
    assert departures(world) == []
    assert followed(world) == []


def test_a_move_whose_command_is_still_carried_out_is_remembered_and_followed() -> None:
    world = commanded()
    world.send(user_request("abort", pod=A))
    assert world.last == ("Aborted", "Aborted")
    # The command can still be carried out.
    assert len(departures(world)) == 1
    world.send(outcome(world.evictions[-1]))
    assert len(departures(world)) == 1
    assert [move.pod.uid for move in followed(world)] == ["a"]
    world.send(lifecycle("deleted", A, "node-1"))
    assert len(followed(world)) == 1


def test_a_move_is_forgotten_when_its_command_expires() -> None:
    for result in ("refused", "dry", ""):
        world = commanded()
        world.send(user_request("abort", pod=A))
        if result:
            world.send(outcome(world.evictions[-1], result))
        else:
            world.later(400)
        assert departures(world) == []
        assert followed(world) == []


def test_a_pod_that_terminates_beyond_the_deadline_has_left() -> None:
    world = commanded()
    world.send(outcome(world.evictions[-1]))
    world.later(400)
    assert world.last == ("Failed", "Timeout")
    assert len(departures(world)) == 1
    assert [move.pod.uid for move in followed(world)] == ["a"]


@pytest.mark.parametrize("mode", ["EvictDirectly", "ReservationFirst"])
def test_a_replacement_that_comes_while_the_pod_still_terminates_is_followed(mode: str) -> None:
    world = commanded(migration_policy(defaultJobMode=mode))
    world.send(lifecycle("running", replica("other", "job"), "node-2"))
    world.send(outcome(world.evictions[-1]))
    world.send(lifecycle("changed", A.model_copy(update={"deleting_at_ms": at(2)}), "node-1"))
    world.later()
    world.send(lifecycle("running", replica("new"), "node-3"))
    world.send(lifecycle("deleted", A, "node-1"))
    (row,) = followed(world)
    assert row.replacement is not None
    assert (row.replacement.uid, row.target_node) == ("new", "node-3")


def test_pods_of_an_owner_from_before_a_command_replace_none() -> None:
    world = world_with_pods(
        migration_policy(defaultJobMode="EvictDirectly"), (A, "node-1"), (B, "node-2")
    )
    world.propose("a", pool="__default_node_pool__")
    world.later()
    world.send(outcome(world.evictions[-1]))
    world.send(lifecycle("deleted", A, "node-1"))
    assert [move.replacement for move in followed(world)] == [None]
