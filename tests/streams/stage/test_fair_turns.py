"""Where not all have a turn: the first ones always, and each of the others in time."""

from hypothesis import given
from hypothesis import strategies as st

from streams.stage.fair_turns import fair_order, fitting


@given(st.lists(st.integers(0, 5), max_size=30), st.integers(0, 200), st.integers(0, 2**40))
def test_an_order_names_everyone_once_and_only_changes_where_turns_are_missing(
    sizes: list[int], most: int, number: int
) -> None:
    order = fair_order(sizes, most, number)
    assert sorted(order) == list(range(len(sizes)))
    first = fitting(sizes, range(len(sizes)), most // 2)
    assert order[:first] == list(range(first))
    if sum(sizes) <= most:
        assert order == sorted(order)


@given(st.integers(2, 60), st.integers(2, 20), st.integers(0, 2**40))
def test_everyone_has_a_turn_in_time(count: int, most: int, begin: int) -> None:
    sizes = [1] * count
    had = {
        place
        for number in range(begin, begin + 1_000_000, 1_000)
        for place in fair_order(sizes, most, number)[:most]
    }
    assert had == set(range(count))


def test_what_fits_is_counted_by_size_and_in_order() -> None:
    assert fitting([3, 2, 2], [0, 1, 2], 5) == 2
    assert fitting([3, 2, 2], [2, 0, 1], 4) == 1
    assert fitting([3], [0], 2) == 0
    assert fitting([], [], 0) == 0
