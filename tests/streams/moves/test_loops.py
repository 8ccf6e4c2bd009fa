"""Detection of loops."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.moves import RecentMove
from streams.moves.history import find_loop
from tests.streams.builders import recent_moves


@pytest.mark.parametrize(
    ("moves", "path"),
    [
        (recent_moves(("a", "a", 1, 2)), ["a", "a"]),
        (recent_moves(("a", "b", 1, 2), ("b", "a", 3, 4)), ["a", "b", "a"]),
        (recent_moves(("a", "b", 1, 2), ("b", "c", 3, 4), ("c", "a", 5, 6)), ["a", "b", "c", "a"]),
        (recent_moves(("a", "b", 1, 2), ("x", "y", 2, 3), ("b", "a", 3, 4)), ["a", "b", "a"]),
        (recent_moves(("a", "b", 1, 2), ("b", "c", 3, 4)), None),
        (recent_moves(("b", "a", 1, 2), ("b", "a", 3, 4)), None),
        # It left b before the other one arrived there: they passed each other.
        (recent_moves(("a", "b", 1, 5), ("b", "a", 3, 6)), None),
        # The steps exist, but not in this order.
        (recent_moves(("b", "c", 1, 2), ("a", "b", 3, 4), ("c", "a", 5, 6)), None),
    ],
)  # fmt: skip
def test_a_loop_is_a_chain_of_moves_that_ends_where_it_began(
    moves: list[RecentMove], path: list[str] | None
) -> None:
    assert find_loop(moves, moves[-1]) == path


def test_a_move_that_has_not_arrived_closes_nothing() -> None:
    moves = [*recent_moves(("a", "b", 1, 2)), RecentMove(source="b", left_at_ms=3)]
    assert find_loop(moves, moves[-1]) is None


@given(st.data())
def test_a_chain_that_returns_to_any_of_its_nodes_is_a_loop(data: st.DataObject) -> None:
    length = data.draw(st.integers(1, 10))
    back = data.draw(st.integers(0, length - 1))
    nodes = [*(f"node-{i}" for i in range(length)), f"node-{back}"]
    steps = [(a, b, 2 * i, 2 * i + 1) for i, (a, b) in enumerate(pairwise(nodes))]
    moves = recent_moves(*steps)
    path = find_loop(moves, moves[-1])
    assert path is not None
    assert path == [*nodes[back:-1], nodes[back]]
