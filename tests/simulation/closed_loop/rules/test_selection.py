import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from simulation.closed_loop.rules import (
    least_allocated,
    load_variation_risk_balancing,
    random_choice,
    target_load_packing,
)
from simulation.closed_loop.rules.view import (
    NodesView,
    Rule,
    choose_best,
    find_nodes_with_room,
)
from simulation.cluster.machines import PODS_PER_NODE
from tests.simulation.closed_loop.rules.views import GI, UNMEASURED, Pair, request, view

RULES: list[Rule] = [
    random_choice.choose, least_allocated.choose, target_load_packing.choose, load_variation_risk_balancing.choose,
]  # fmt: skip


def test_room_compares_requests_and_number_of_pods_with_allocatable() -> None:
    nodes = view(
        (1000, GI), (999, GI), (1000, GI - 1), (1000, GI),
        pods=[0, 0, 0, PODS_PER_NODE],
    )  # fmt: skip
    assert find_nodes_with_room(request(1000), nodes).tolist() == [True, False, False, False]


def test_one_of_the_nodes_with_the_best_score_is_drawn() -> None:
    scores, room = np.array([5, 9, 9, 9]), np.array([True, True, False, True])
    drawn = {choose_best(scores, room, np.random.default_rng(seed)) for seed in range(30)}
    assert drawn == {1, 3}
    assert choose_best(scores, ~room & False, np.random.default_rng(0)) is None


_PAIR = st.tuples(st.integers(0, 64_000), st.integers(0, 64).map(lambda gib: gib * GI))
_MEASURED = st.one_of(_PAIR, st.just(UNMEASURED))


@st.composite
def _views(draw: st.DrawFn) -> NodesView:
    allocatable: list[Pair] = draw(st.lists(_PAIR, max_size=6))
    size = len(allocatable)
    lists = {
        name: draw(st.lists(strategy, min_size=size, max_size=size))
        for name, strategy in {
            "requested": _PAIR, "unreported": _PAIR, "measured": _MEASURED, "deviation": _MEASURED,
        }.items()
    }  # fmt: skip
    pods = draw(st.lists(st.integers(0, PODS_PER_NODE), min_size=size, max_size=size))
    return view(*allocatable, **lists, pods=pods)


@pytest.mark.parametrize("choose", RULES, ids=lambda rule: rule.__module__)
@given(nodes=_views(), cpu=st.integers(0, 64_000), seed=st.integers(0, 9))
def test_a_rule_chooses_a_node_that_has_room_and_the_same_one_from_the_same_seed(
    choose: Rule, nodes: NodesView, cpu: int, seed: int
) -> None:
    wanted_request = request(cpu)
    room = find_nodes_with_room(wanted_request, nodes)
    chosen = [choose(wanted_request, nodes, np.random.default_rng(seed)) for _ in range(2)]
    assert chosen[0] == chosen[1]
    assert (chosen[0] is None) == (not room.any())
    assert chosen[0] is None or room[chosen[0]]
