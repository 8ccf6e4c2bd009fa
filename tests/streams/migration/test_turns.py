"""Work on migrations is limited per tick and reaches every migration."""

import pytest

from streams.migration import arbitration, drains, execution, tracking
from tests.streams.builders import (
    NO_LIMITS,
    budget,
    lifecycle,
    migration_policy,
    removed_node,
    replica,
    user_request,
)
from tests.streams.world import World, count_calls, world_with_pods

COUNT = 12


def many(count: int, policy: str = NO_LIMITS) -> World:
    """Pods p-00, p-01, ... of node-1."""
    return world_with_pods(policy, *((replica(f"p-{n:02}"), "node-1") for n in range(count)))


def test_a_tick_decides_no_more_commands_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "COMMANDS_PER_TICK_MAX", 5)
    of = many(COUNT)
    for number in range(COUNT):
        assert of.propose(f"p-{number:02}") is None
    counts = []
    for _ in range(4):
        of.evictions.clear()
        of.later()
        counts.append(len(of.evictions))
    assert counts == [5, 5, 2, 0]


def test_migrations_that_wait_for_a_budget_do_not_block_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execution, "EXECUTED_PER_TICK_MAX", 4)
    of = many(COUNT)
    of.send(budget(allowed=COUNT))
    for number in range(COUNT):
        assert of.propose(f"p-{number:02}") is None
    of.send(budget(allowed=1), lifecycle("seen", replica("free", owner="other"), "node-1"))
    assert of.propose("free") is None
    for _ in range(200):
        of.later()
        if any(command.pod.name == "free" for command in of.evictions):
            break
    assert [command.pod.name for command in of.evictions] == ["p-00", "free"]


def test_an_arbitration_checks_a_limited_number_and_reaches_every_migration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arbitration, "ARBITRATED_PER_TICK_MAX", 4)
    of = many(COUNT)
    for number in range(COUNT):
        of.propose(f"p-{number:02}")
    calls = count_calls(monkeypatch, arbitration.Arbitration, "_arbitrate")
    while len(of.evictions) < COUNT:
        calls.clear()
        of.later()
        assert 0 < calls.total() <= 4


def test_a_tick_ends_no_more_than_the_limit_and_the_oldest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracking, "ENDED_PER_TICK_MAX", 5)
    of = many(COUNT, migration_policy(defaultJobTTL="10s", defaultJobMode="EvictDirectly"))
    of.send(*(user_request("drain", node="node-1"),))
    of.later()
    ended = []
    for _ in range(4):
        of.migrations.clear()
        of.later(11)
        ended.append(sum(status.reason == "Timeout" for status in of.migrations))
    assert max(ended) == 5
    assert sum(ended) >= COUNT


@pytest.mark.parametrize("limit", [1, 6, 1_000])
def test_ticks_check_a_limited_number_of_drained_pods_and_reach_every_node(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drains, "PODS_PER_TICK_MAX", limit)
    names = [f"node-{number}" for number in range(1, 6)]
    pods = [(replica(f"{name}-{number}"), name) for name in names for number in range(2)]
    of = world_with_pods(migration_policy(defaultJobMode="EvictDirectly"), *pods, nodes=6)
    for name in names:
        of.send(user_request("drain", node=name))
    looked: list[str] = []
    look = drains.Drains._split_pods

    def looking(self: drains.Drains, row: object, node: object, now_ms: int) -> object:
        looked.append(row.node)  # type: ignore[attr-defined]
        return look(self, row, node, now_ms)  # type: ignore[arg-type]

    monkeypatch.setattr(drains.Drains, "_split_pods", looking)
    whole = []
    for _ in range(40):
        looked.clear()
        of.later()
        whole.append(tuple(looked))
    if limit == 1_000:
        assert whole == [tuple(names)] * 40
    else:
        assert all(len(nodes) == {1: 1, 6: 2}[limit] for nodes in whole)
        assert {name for nodes in whole for name in nodes} == set(names)
    assert {command.pod.name for command in of.evictions} == {
        pod.name for pod, name in pods if any(name in nodes for nodes in whole)
    }


@pytest.mark.parametrize("how", ["deadline", "node"])
def test_an_expired_migration_gets_no_command_before_it_is_ended(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking, "ENDED_PER_TICK_MAX", 2)
    slow = migration_policy(
        defaultJobMode="EvictDirectly", defaultJobTTL="3s", evictQPS=1, evictBurst=1
    )
    of = many(COUNT, slow)
    for number in range(COUNT):
        of.propose(f"p-{number:02}")
    of.later()
    if how == "node":
        of.send(removed_node("node-1"))
    else:
        of.later()
    commanded = len(of.evictions)
    for _ in range(COUNT):
        of.later()
    assert len(of.evictions) == commanded
    ended = {status.pod.uid for status in of.migrations if status.phase == "Failed"}
    assert len(ended) == COUNT
