"""The ranking of one exact score: as the ordinary one, but that merits decide."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.placement.exact_ranking import ExactRanking
from streams.placement.ranking import REFUSED, Ranking
from tests.streams.placement.test_ranking import World


def _exact(memory: dict[str, int], weight: int = 1) -> World:
    """Nodes by their memory, which is the only score and decides as it is."""
    return World(memory, normalised=True, exact=True, weight=weight)


def _whole(ranking: Ranking) -> list[int]:
    return [ranking.total(row) for row in range(ranking.totals.size)]


def test_what_whole_numbers_put_level_is_told_apart() -> None:
    memory = {"a": 99_990, "b": 100_000, "c": 99_999, "d": 50_000}
    assert World(memory, normalised=True).rank().runners_up(3, {1}) == [0, 2, 3]
    ranking = _exact(memory).rank()
    assert isinstance(ranking, ExactRanking)
    assert ranking.best() == 1
    assert ranking.runners_up(3, {1}) == [2, 0, 3]


@pytest.mark.parametrize("weight", [1, 7])
@given(data=st.data())
def test_it_follows_changes_and_shows_what_the_ordinary_one_shows(
    weight: int, data: st.DataObject
) -> None:
    sizes = data.draw(st.lists(st.integers(100, 200_000), min_size=1, max_size=12))
    memory = {f"node-{number:02}": size for number, size in enumerate(sizes)}
    exact, ordinary = _exact(memory, weight), World(memory, normalised=True, weight=weight)
    held: set[str] = set()
    for _ in range(data.draw(st.integers(0, 8))):
        name = data.draw(st.sampled_from(sorted(memory)))
        for world in (exact, ordinary):
            (world.release if name in held else world.hold)(name)
        held ^= {name}
        shown, expected = exact.rank(), ordinary.rank()
        assert _whole(shown) == expected.totals.tolist() == _whole(expected)
        for row in range(len(memory)):
            if expected.totals[row] != REFUSED:
                assert shown.terms(row) == expected.terms(row)
        assert shown.best() == expected.best()
