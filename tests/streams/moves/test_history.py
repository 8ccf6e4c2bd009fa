"""Avoided nodes and frozen owners."""

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.moves import HISTORY_MAX
from schemas.policy import read_policy
from streams.moves import history
from streams.moves.history import MoveHistory
from tests.streams.builders import CLUSTER, at, moves_policy


def remembered(**settings: Any) -> MoveHistory:
    """A memory with these settings."""
    return MoveHistory(CLUSTER, moves_policy(**settings))


def go(moves: MoveHistory, owner: str, source: str, target: str, seconds: float) -> None:
    """A pod of an owner leaves a node, and its replacement arrives 10 s later."""
    moves.record_departure(owner, source, at(seconds), "hot")
    moves.record_arrival(owner, target, at(seconds + 10))


def test_a_pod_is_kept_away_while_the_node_is_hot_or_cooling() -> None:
    moves = remembered(coolingSeconds=100, coolingMetrics=2)
    moves.record_departure("web", "a", at(0), "cpu 90 % over 70 %")
    assert moves.find_avoided("web", at(0)) == {"a"}
    assert moves.find_avoided("other", at(0)) == frozenset()
    # Time alone does not cool it, nor do metrics from before.
    moves.cooldown.record_metric("a", at(-10))
    assert moves.find_avoided("web", at(200)) == {"a"}
    moves.cooldown.record_metric("a", at(60))
    moves.cooldown.record_metric("a", at(60))
    assert moves.find_avoided("web", at(200)) == {"a"}
    moves.cooldown.record_metric("a", at(120))
    assert moves.find_avoided("web", at(200)) == frozenset()


def test_metrics_alone_do_not_cool_a_node_before_its_time() -> None:
    moves = remembered(coolingSeconds=100, coolingMetrics=2)
    moves.record_departure("web", "a", at(0), "")
    for seconds in (10, 20, 30):
        moves.cooldown.record_metric("a", at(seconds))
    assert moves.find_avoided("web", at(99)) == {"a"}
    assert moves.find_avoided("web", at(100)) == frozenset()


def test_a_hot_round_restarts_the_cooldown() -> None:
    moves = remembered(coolingSeconds=100, coolingMetrics=0)
    moves.record_departure("web", "a", at(0), "")
    moves.cooldown.record_hot_nodes({"a", "b"}, at(90))
    assert list(moves.cooldown.rows) == ["a"]
    assert moves.find_avoided("web", at(189)) == {"a"}
    assert moves.find_avoided("web", at(190)) == frozenset()


def test_a_removed_node_is_not_avoided() -> None:
    moves = remembered()
    moves.record_departure("web", "a", at(0), "")
    moves.cooldown.drop("a")
    assert moves.find_avoided("web", at(1)) == frozenset()


def test_a_node_that_stays_hot_is_remembered_beyond_the_window() -> None:
    moves = remembered(loopWindowSeconds=100, coolingSeconds=50, coolingMetrics=0)
    moves.record_departure("web", "a", at(0), "")
    for seconds in range(0, 400, 20):
        moves.cooldown.record_hot_nodes({"a"}, at(seconds))
        moves.tick(at(seconds))
        assert moves.find_avoided("web", at(seconds)) == {"a"}
    moves.tick(at(380 + 51))
    assert not moves.rows
    assert not moves.cooldown.rows


def test_a_pod_that_returns_to_its_node_freezes_its_owner() -> None:
    moves = remembered(initialFreezeSeconds=60)
    go(moves, "web", "a", "a", 0)
    why = moves.explain_freeze("web", at(11))
    assert why == "the owner is frozen for 59 s more: its pods moved a → a"
    assert moves.explain_freeze("web", at(70)) is None
    assert moves.explain_freeze("other", at(11)) is None


def test_a_loop_is_frozen_at_its_first_return_and_longer_each_time() -> None:
    moves = remembered(initialFreezeSeconds=100, maxFreezeSeconds=350, maxMovesPerOwner=31)
    go(moves, "web", "a", "b", 0)
    assert moves.explain_freeze("web", at(10)) is None
    go(moves, "web", "b", "a", 20)
    now = 30
    for step, freeze_s in enumerate((100, 200, 350, 350)):
        assert moves.explain_freeze("web", at(now + freeze_s - 1)) is not None
        assert moves.explain_freeze("web", at(now + freeze_s)) is None
        go(moves, "web", "ab"[step % 2], "ba"[step % 2], now + freeze_s)
        now += freeze_s + 10


def test_more_moves_than_allowed_freeze_the_owner() -> None:
    moves = remembered(maxMovesPerOwner=3)
    for step, (source, target) in enumerate([("a", "b"), ("b", "c"), ("c", "d")]):
        go(moves, "web", source, target, step * 60)
        assert moves.explain_freeze("web", at(step * 60 + 10)) is None
    moves.record_departure("web", "d", at(200), "")
    why = moves.explain_freeze("web", at(200))
    assert why is not None
    assert "4 moves within 3600 s, allowed are 3" in why
    # The pod was not evicted in the end, so it was no move.
    moves.cancel_departure("web", "d", at(201))
    assert moves.explain_freeze("web", at(201)) is None
    assert moves.find_avoided("web", at(201)) == {"a", "b", "c"}


def test_a_move_that_did_not_happen_ends_its_freeze() -> None:
    moves = remembered(maxMovesPerOwner=1)
    moves.record_departure("web", "a", at(0), "")
    moves.record_departure("web", "b", at(1), "")
    moves.set_policy(moves_policy(maxMovesPerOwner=1, initialFreezeSeconds=900))
    assert moves.explain_freeze("web", at(2)) is not None
    moves.cancel_departure("web", "b", at(3))
    assert moves.explain_freeze("web", at(3)) is None


@pytest.mark.parametrize("later", [False, True])
def test_a_pod_rests_no_longer_than_the_window(later: bool) -> None:
    moves = remembered(loopWindowSeconds=3600)
    go(moves, "web", "a", "b", 0)
    if later:
        go(moves, "web", "c", "d", 3000)
    moves.tick(at(3599))
    for rest_s, text in ((7200, "rests for 1 s more"), (3580, None)):
        why = moves.explain_rest("web", "b", at(10), rest_s * 1000, at(3599))
        assert why is None if text is None else why is not None and why.endswith(text)
    moves.tick(at(3600))
    assert moves.explain_rest("web", "b", at(10), 7200_000, at(3600)) is None


def test_an_owner_of_many_replicas_may_move_each_once() -> None:
    moves = remembered(maxMovesPerOwner=2)
    for step in range(8):
        moves.record_departure("web", f"node-{step}", at(step), "", replicas=8)
        assert moves.explain_freeze("web", at(step)) is None
    moves.record_departure("web", "node-9", at(9), "", replicas=8)
    assert moves.explain_freeze("web", at(9)) is not None


def test_expired_moves_are_forgotten() -> None:
    moves = remembered(loopWindowSeconds=100, initialFreezeSeconds=50, coolingMetrics=0)
    go(moves, "web", "a", "a", 0)
    moves.tick(at(10 + 50 + 99))
    assert moves.rows
    moves.tick(at(301))
    assert not moves.rows
    assert not moves.cooldown.rows
    go(moves, "web", "a", "a", 400)
    assert "in a row" not in str(moves.explain_freeze("web", at(411)))


def test_dry_moves_freeze_and_exclude_nothing() -> None:
    moves = MoveHistory(CLUSTER, moves_policy("observe", maxMovesPerOwner=1))
    moves.record_departure("web", "a", at(0), "", dry_run=True)
    moves.record_departure("web", "a", at(60), "", dry_run=True)
    assert moves.explain_freeze("web", at(61)) is not None
    assert moves.find_avoided("web", at(61)) == frozenset()
    moves.record_arrival("web", "a", at(62))
    assert moves.rows["web"].moves[0].target is None
    moves.set_policy(moves_policy("enforce", maxMovesPerOwner=1))
    assert moves.explain_freeze("web", at(63)) is None
    assert not moves.rows


@pytest.mark.parametrize("document", ["moves: {enabled: false}", "compat: koordinator"])
def test_moves_are_not_remembered_when_disabled(document: str) -> None:
    moves = MoveHistory(CLUSTER, read_policy(document))
    go(moves, "web", "a", "a", 0)
    assert moves.find_avoided("web", at(10)) == frozenset()
    assert moves.explain_freeze("web", at(10)) is None
    assert not moves.rows


def test_the_least_recent_owner_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history, "OWNERS_MAX", 3)
    moves = MoveHistory(CLUSTER, moves_policy())
    for step, owner in enumerate(("a", "b", "c")):
        moves.record_departure(owner, f"node-{owner}", at(step), "")
    moves.record_arrival("a", "x", at(10))
    moves.record_departure("d", "node-d", at(11), "")
    assert sorted(moves.rows) == ["a", "c", "d"]
    assert "node-b" not in moves.cooldown.rows


@given(rounds=st.integers(1, 300), length=st.integers(1, 5), pause_s=st.integers(20, 300))
def test_an_owner_that_always_loops_is_stopped_within_two_cycles(
    rounds: int, length: int, pause_s: int
) -> None:
    """Rebalancing moves the owner around a ring of nodes, in each round in which it is not frozen."""
    moves = remembered(loopWindowSeconds=7200, maxMovesPerOwner=31, initialFreezeSeconds=900)
    times: list[int] = []
    for number in range(rounds):
        now = number * pause_s
        moves.tick(at(now))
        if moves.explain_freeze("web", at(now)) is None:
            step = len(times)
            go(moves, "web", f"node-{step % length}", f"node-{(step + 1) % length}", now)
            times.append(now)
    breaks = [step for step, (a, b) in enumerate(pairwise(times), start=1) if b - a > pause_s]
    assert len(times) <= length or breaks[0] == length
    waits = [b - a for a, b in pairwise(times[length - 1 :])]
    # Rounds come at steps of the pause, so a wait may end that much late.
    assert all(
        later >= min(2 * earlier - 3 * pause_s, 86_400) for earlier, later in pairwise(waits)
    )


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 300), st.booleans()), max_size=80))
def test_moves_without_loops_below_the_limits_freeze_no_owner(
    events: list[tuple[int, int, bool]],
) -> None:
    """Each owner moves on to a node where it never was, at most four times in an hour."""
    moves = remembered(maxMovesPerOwner=4)
    now = 0
    fresh = 0
    where = {owner: f"home-{owner}" for owner in range(5)}
    departures: dict[int, list[int]] = {owner: [] for owner in range(5)}
    for owner, pause, arrives in events:
        now += pause
        moves.tick(at(now))
        recent = [time for time in departures[owner] if time > now - 3600]
        if len(recent) < 4:
            departures[owner] = [*recent, now]
            moves.record_departure(str(owner), where[owner], at(now), "hot")
            fresh += 1
            where[owner] = f"node-{fresh}"
            if arrives:
                moves.record_arrival(str(owner), where[owner], at(now))
        assert all(moves.explain_freeze(str(number), at(now)) is None for number in range(5))


@given(
    st.lists(
        st.tuples(st.integers(0, 20), st.integers(0, 6), st.integers(0, 400), st.booleans()),
        max_size=200,
    )
)
def test_the_memory_of_moves_is_bounded(events: list[tuple[int, int, int, bool]]) -> None:
    moves = MoveHistory(CLUSTER, moves_policy())
    now = 0
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(history, "OWNERS_MAX", 8)
        for owner, node, pause, arrives in events:
            now += pause
            moves.tick(at(now))
            if arrives:
                moves.record_arrival(str(owner), f"node-{node}", at(now))
            else:
                moves.record_departure(str(owner), f"node-{node}", at(now), "hot", replicas=1000)
            assert len(moves.rows) <= 8
            assert all(len(row.moves) <= HISTORY_MAX for row in moves.rows.values())
            sources = {m.source for row in moves.rows.values() for m in row.moves}
            assert set(moves.cooldown.rows) <= sources
