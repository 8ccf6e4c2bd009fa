"""A budget that is too small for all items reaches each of them in time."""

from hypothesis import given
from hypothesis import strategies as st

from streams.stage.budget import Budget

SIZES = st.lists(st.integers(0, 5), max_size=30)


@given(SIZES, st.integers(0, 200), st.integers(0, 2**40))
def test_a_budget_chooses_no_more_than_it_has_and_half_of_it_in_order(
    sizes: list[int], units: int, seed: int
) -> None:
    chosen = Budget(units, seed).choose(sizes)
    assert len(set(chosen)) == len(chosen)
    assert sum(sizes[index] for index in chosen) <= units or len(chosen) == 1
    if sum(sizes) <= units:
        assert chosen == list(range(len(sizes)))
    for index, _ in enumerate(sizes):
        if sum(sizes[: index + 1]) <= units // 2:
            assert chosen[index] == index


@given(st.integers(2, 60), st.integers(2, 20), st.integers(0, 2**40))
def test_every_item_is_chosen_in_time(count: int, units: int, begin: int) -> None:
    chosen = {
        index
        for seed in range(begin, begin + 1_000_000, 1_000)
        for index in Budget(units, seed).choose([1] * count)
    }
    assert chosen == set(range(count))
