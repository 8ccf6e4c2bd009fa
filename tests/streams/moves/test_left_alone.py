"""Pods of other moves are worked out of what a node uses."""

import random
from collections import Counter

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.moves import FollowedEvictionRow
from streams.moves.effects import Effects
from streams.moves.left_alone import WORKED_OUT_MAX, left_alone
from streams.rebalance.peers import Standings
from tests.streams.cluster.builders import CLUSTER, at
from tests.streams.moves.builders import AS_OF, move, pod, policy, ref

WINDOW_MS = 300_000


def cpu(*moves: FollowedEvictionRow, since: float = 0, now: float = 600) -> int | None:
    """What a node that uses 5,000 would use if it had been left alone."""
    found = left_alone({"cpu": 5_000}, "peer", "node", moves, at(since), at(now), WINDOW_MS)
    return None if found is None else found["cpu"]


def test_a_pod_that_has_left_counts_by_the_part_of_the_window_that_has_passed() -> None:
    left = move("peer", left=100)
    assert [cpu(left, now=now) for now in (100, 175, 250, 400, 600)] == [
        5_000, 5_250, 5_500, 6_000, 6_000,
    ]  # fmt: skip


def test_a_pod_that_has_come_is_deducted_in_the_same_way() -> None:
    came = move(target="peer", came=100)
    assert [cpu(came, now=now) for now in (100, 250, 400)] == [5_000, 4_500, 4_000]
    assert cpu(move("peer", "peer", left=100, came=100)) == 5_000


def test_what_was_in_the_figures_when_the_move_was_made_is_not_worked_out_again() -> None:
    assert cpu(move("peer", left=0), since=300) == 5_000
    assert cpu(move("peer", left=0), since=75, now=300) == 5_750


def test_a_node_is_not_compared_with_if_what_moved_is_not_known_or_is_too_much() -> None:
    assert cpu(move("peer", cpu=None)) is None
    assert cpu(*[move("peer")] * WORKED_OUT_MAX) == 5_000 + 1_000 * WORKED_OUT_MAX
    assert cpu(*[move("peer")] * (WORKED_OUT_MAX + 1)) is None


def test_of_prod_pods_only_those_count_that_left_because_of_prod_pods() -> None:
    used = {"cpu": 5_000}
    prod, whole = move("peer", phase="prod"), move("peer")
    times = (at(0), at(600), WINDOW_MS)
    assert left_alone(used, "peer", "prod", [prod], *times) == {"cpu": 6_000}
    assert left_alone(used, "peer", "prod", [whole], *times) is None
    assert left_alone(used, "peer", "node", [prod], *times) == {"cpu": 6_000}


@given(
    st.lists(st.tuples(st.booleans(), st.integers(-600, 600), st.integers(0, 3_000)), max_size=4)
)
def test_averages_of_a_node_with_moves_come_to_those_of_the_node_left_alone(
    moves: list[tuple[bool, int, int]],
) -> None:
    """The node uses 5,000 but for moves, so its average differs by them alone."""
    rows = [
        move("peer", left=second, cpu=amount)
        if leaves
        else move(target="peer", came=second, cpu=amount)
        for leaves, second, amount in moves
    ]
    since, now = 0, 600
    used = before = 5_000
    for leaves, second, amount in moves:
        for at_s in (since, now):
            passed = min(max(at_s - second, 0), 300)
            change = (-1 if leaves else 1) * amount * passed // 300
            used += change if at_s == now else 0
            before += change if at_s == since else 0
    found = left_alone({"cpu": used}, "peer", "node", rows, at(since), at(now), WINDOW_MS)
    assert found is not None
    assert found["cpu"] == pytest.approx(before, abs=2 * len(rows))


class Lively:
    """Ten nodes alike, from each of which a pod leaves within ten minutes; all is from a seed.

    Usage is what a node would use without moves, less what has left it, as averages of five
    minutes.
    """

    def __init__(self, seed: int, *, moved: int, cool_from: int | None = None) -> None:
        self._draw, self._moved, self._cool_from = random.Random(seed), moved, cool_from
        self._effects = Effects(CLUSTER, policy(followSeconds=600))
        names = [f"node-{number}" for number in range(10)]
        self._left = {name: 60 * self._draw.randrange(10) for name in names}
        self.verdicts: Counter[str] = Counter()
        for now in range(0, 1_260, 60):
            used = {name: self._used(name, now) for name in names}
            for name in names:
                if self._left[name] == now:
                    self._leave(name, used, now)
            for pool, name, phase in self._effects.watched():
                of = ({"cpu": used.get(name, 3_000)}, {"cpu": 7_000}, {"cpu": 10_000})
                self._effects.observe(pool, name, phase, *of, at(now))
            self.verdicts.update(each.verdict for each in self._effects.tick(at(now), AS_OF))

    def _used(self, name: str, now: int) -> int:
        hot = self._cool_from is None or now < self._cool_from
        gone = self._moved * min(max(now - self._left[name], 0), 300) // 300
        return (7_900 if hot else 5_500) + self._draw.randrange(-200, 200) - gone

    def _leave(self, name: str, used: dict[str, int], now: int) -> None:
        standings = Standings(list(used), np.array(list(used.values())) / 10_000)
        self._effects.evicted(
            command_id=f"e-{name}-000000", migration_id=f"m-{name}-000000", pod=ref(f"pod-{name}"),
            owner=name, pool="default", phase="node", source_node=name, dry_run=False,
            now_ms=at(now), usage={"cpu": self._moved}, peers=standings.nearest(name, set()),
        )  # fmt: skip
        new = pod(f"new-{name}", owner=name, ready=True)
        self._effects.arrived(name, new, f"target-{name}", at(now))


@pytest.mark.parametrize("seed", range(5))
def test_moves_that_cool_their_nodes_have_helped_though_pods_leave_all_nodes(seed: int) -> None:
    verdicts = Lively(seed, moved=2_500).verdicts
    # The last nodes that pods leave may have no other that is as hot.
    assert verdicts.keys() <= {"helped", "unknown"}
    assert verdicts["helped"] >= 7


@pytest.mark.parametrize("seed", range(5))
def test_moves_of_pods_that_use_next_to_nothing_have_not_helped(seed: int) -> None:
    assert Lively(seed, moved=50).verdicts == {"source hot": 10}


@pytest.mark.parametrize("seed", range(5))
def test_where_the_whole_cluster_cools_by_itself_no_move_has_made_a_difference(seed: int) -> None:
    assert Lively(seed, moved=50, cool_from=0).verdicts == {"no difference": 10}


@pytest.mark.parametrize("seed", range(5))
def test_where_all_nodes_cool_at_a_time_no_move_is_taken_to_have_helped(seed: int) -> None:
    assert Lively(seed, moved=50, cool_from=540).verdicts["helped"] == 0
