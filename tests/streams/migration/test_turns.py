"""Work on migrations is limited per tick and reaches every migration."""

import pytest

from streams.migration import arbitration, drains, execution, tracking
from tests.streams.cluster.builders import ask, budget, lifecycle, node_gone, policy_text, replica
from tests.streams.migration.harness import cluster, many

COUNT = 12


def test_a_tick_decides_no_more_commands_than_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "COMMANDS_PER_TICK_MAX", 5)
    of = many(COUNT)
    for number in range(COUNT):
        assert of.propose(f"p-{number:02}") is None
    counts = []
    for _ in range(4):
        of.commands.clear()
        of.later()
        counts.append(len(of.commands))
    assert counts == [5, 5, 2, 0]


def test_migrations_that_wait_for_a_budget_do_not_block_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(execution, "STEPS_PER_TICK_MAX", 4)
    of = many(COUNT)
    of.say(budget(allowed=COUNT))
    for number in range(COUNT):
        assert of.propose(f"p-{number:02}") is None
    of.say(budget(allowed=1), lifecycle("seen", replica("free", owner="other"), "node-1"))
    assert of.propose("free") is None
    for _ in range(200):
        of.later()
        if any(each.pod.name == "free" for each in of.commands):
            break
    assert [each.pod.name for each in of.commands] == ["p-00", "free"]


def test_an_arbitration_checks_a_limited_number_and_reaches_every_migration(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(arbitration, "ARBITRATED_PER_TICK_MAX", 4)
    of = many(COUNT)
    for number in range(COUNT):
        of.propose(f"p-{number:02}")
    asked = []
    ask_one = arbitration.Arbitration._arbitrate

    def asking(self: arbitration.Arbitration, row: object, *given: object) -> None:
        asked.append(row)
        ask_one(self, row, *given)  # type: ignore[arg-type]

    monkeypatch.setattr(arbitration.Arbitration, "_arbitrate", asking)
    while len(of.commands) < COUNT:
        asked.clear()
        of.later()
        assert 0 < len(asked) <= 4


def test_a_tick_ends_no_more_than_the_limit_and_the_oldest_first(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(tracking, "ENDED_PER_TICK_MAX", 5)
    of = many(COUNT, policy_text(defaultJobTTL="10s", defaultJobMode="EvictDirectly"))
    of.say(*(ask("drain", node="node-1"),))
    of.later()
    ended = []
    for _ in range(4):
        of.reports.clear()
        of.later(11)
        ended.append(sum(each.reason == "Timeout" for each in of.reports))
    assert max(ended) == 5
    assert sum(ended) >= COUNT


@pytest.mark.parametrize("limit", [1, 6, 1_000])
def test_ticks_check_a_limited_number_of_drained_pods_and_reach_every_node(
    limit: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drains, "PODS_PER_TICK_MAX", limit)
    names = [f"node-{number}" for number in range(1, 6)]
    pods = [(replica(f"{name}-{place}"), name) for name in names for place in range(2)]
    of = cluster(policy_text(defaultJobMode="EvictDirectly"), *pods, nodes=6)
    for name in names:
        of.say(ask("drain", node=name))
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
        assert all(len(each) == {1: 1, 6: 2}[limit] for each in whole)
        assert {name for each in whole for name in each} == set(names)
    assert {each.pod.name for each in of.commands} == {
        pod.name for pod, name in pods if any(name in each for each in whole)
    }


@pytest.mark.parametrize("how", ["deadline", "node"])
def test_an_expired_migration_gets_no_command_before_it_is_ended(
    how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tracking, "ENDED_PER_TICK_MAX", 2)
    slow = policy_text(defaultJobMode="EvictDirectly", defaultJobTTL="3s", evictQPS=1, evictBurst=1)
    of = many(COUNT, slow)
    for number in range(COUNT):
        of.propose(f"p-{number:02}")
    of.later()
    if how == "node":
        of.say(node_gone("node-1"))
    else:
        of.later()
    commanded = len(of.commands)
    for _ in range(COUNT):
        of.later()
    assert len(of.commands) == commanded
    ended = {each.pod.uid for each in of.reports if each.phase == "Failed"}
    assert len(ended) == COUNT
