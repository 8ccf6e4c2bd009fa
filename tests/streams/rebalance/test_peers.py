"""Which nodes are as hot as the one that a pod leaves."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from schemas.moves import PEERS_MAX
from streams.rebalance.peers import AS_HOT_MAX, Standings
from tests.streams.rebalance.builders import BY_RISK, THRESHOLDS
from tests.streams.rebalance.harness import World, risky


def names(count: int) -> list[str]:
    """Names in ascending order."""
    return [f"node-{number:02}" for number in range(count)]


@given(st.lists(st.floats(-1, 1) | st.just(-np.inf), min_size=1, max_size=30), st.data())
def test_peers_are_the_nearest_within_the_limit_that_no_pod_leaves(
    excess: list[float], data: st.DataObject
) -> None:
    known = names(len(excess))
    own = data.draw(st.sampled_from(known))
    standings, left = Standings(known, np.array(excess)), set[str]()
    for name in data.draw(st.lists(st.sampled_from(known), max_size=4)):
        standings.nearest(own, left)  # asked again as pods leave one node after the other
        left.add(name)
    found = standings.nearest(own, left)
    away = {
        name: abs(each - excess[known.index(own)])
        for name, each in zip(known, excess, strict=True)
        if name not in left | {own} and each > -np.inf
    }
    alike = sorted((far, name) for name, far in away.items() if far <= AS_HOT_MAX)
    assert list(found) == [name for _, name in alike][:PEERS_MAX]


def test_a_move_by_thresholds_is_judged_against_nodes_that_are_almost_hot_too() -> None:
    world = World(THRESHOLDS)
    for name, percent in (("calm", 10), ("far", 60), ("hot", 50), ("near", 69)):
        world.node(name, system=percent)
    world.pod("a", "hot", 22)
    world.measure()
    assert world.round() == ["a hot->calm"]
    assert world.outcome.moves[0].peers == ("near",)


def test_a_move_by_risk_is_judged_against_nodes_as_hot_whatever_they_cost() -> None:
    world = risky(BY_RISK)
    world.node("alike", system=86)
    world.measure()
    world.now_ms += 1
    moved = world.round()
    assert moved
    assert all(move.peers == ("alike",) for move in world.outcome.moves if move.node == "risky")
