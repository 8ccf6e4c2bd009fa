"""What was used lately: what lasts of it is expected, and what does not is passed over."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.inventory.life import PARTS, Life, lived
from streams.inventory.recent import Recent, ahead, begun, followed

_WINDOW = 5
_USAGE = st.lists(st.integers(0, 64_000), min_size=1, max_size=60)


def _lived(usage: list[int], recent_minutes: int = 30) -> tuple[Life, Recent]:
    """A life of windows with these usages, and what was used lately at its end."""
    life = lived(None, _WINDOW, [usage[0]])
    recent = begun(life)
    for used in usage[1:]:
        recent = followed(recent, life, _WINDOW, [used], recent_minutes)
        life = lived(life, _WINDOW, [used])
    return life, recent


def _mean(life: Life) -> float:
    return life[1] / PARTS


def test_a_life_that_has_begun_is_expected_to_go_on_as_it_was() -> None:
    life = lived(lived(None, 5, [100, 7]), 5, [300, 9])
    assert ahead(life, begun(life), _WINDOW) == life


def test_a_surge_after_a_quiet_day_is_expected_to_go_on_within_two_windows() -> None:
    life, recent = _lived([1_000] * 288 + [3_000] * 2)
    assert _mean(life) == pytest.approx(1_000, rel=0.02)
    half_an_hour = _lived([1_000] * 288 + [3_000] * 6)
    assert _mean(ahead(life, recent, _WINDOW)) > 1_200
    assert _mean(ahead(*half_an_hour, _WINDOW)) == pytest.approx(2_250, rel=0.1)


def test_usage_that_goes_up_and_down_by_chance_is_expected_at_its_mean() -> None:
    chance = random.Random(1)
    life, recent = _lived([chance.randrange(500, 1_500) for _ in range(288)])
    expected = ahead(life, recent, _WINDOW)
    assert _mean(expected) == pytest.approx(_mean(life), rel=0.03)
    assert expected[2] == pytest.approx(life[2], rel=0.03)


def test_what_lasts_takes_from_the_deviation_and_leaves_half_of_it() -> None:
    life, recent = _lived(([1_000] * 72 + [3_000] * 72) * 4)
    expected = ahead(life, recent, _WINDOW)
    assert 0.5 * life[2] <= expected[2] + 1
    assert expected[2] < 0.6 * life[2]


def test_a_longer_memory_follows_more_slowly() -> None:
    surge = [1_000] * 100 + [3_000] * 4
    fast, slow = (_mean(ahead(*_lived(surge, minutes), _WINDOW)) for minutes in (10, 240))
    assert fast > slow > 1_000


def test_few_windows_are_believed_little() -> None:
    parts = []
    for before in (6, 200):
        life, recent = _lived([1_000] * before + [3_000] * 3)
        parts.append((ahead(life, recent, _WINDOW)[1] - life[1]) / (recent[0] - life[1]))
    assert 0 <= parts[0] < 0.2
    assert 0.5 < parts[1] <= 1


def test_in_the_first_minutes_the_mean_is_what_was_used_lately() -> None:
    life, recent = _lived([1_000, 3_000, 500, 2_000])
    assert recent[0] == pytest.approx(life[1], abs=5)


@given(_USAGE, st.integers(1, 1_440))
def test_what_is_expected_is_between_the_mean_and_the_recent(
    usage: list[int], recent_minutes: int
) -> None:
    life, recent = _lived(usage, recent_minutes)
    expected = ahead(life, recent, _WINDOW)
    assert min(life[1], recent[0]) - 1 <= expected[1] <= max(life[1], recent[0]) + 1
    assert 0 <= expected[2] <= life[2]
    assert expected[0] == life[0]
    assert 0 <= recent[2] <= 1_000_000


@given(st.lists(st.tuples(st.integers(0, 64_000), st.integers(0, 2**40)), min_size=1, max_size=20))
def test_resources_are_apart(usage: list[tuple[int, int]]) -> None:
    life = lived(None, _WINDOW, usage[0])
    recent = begun(life)
    for used in usage[1:]:
        recent = followed(recent, life, _WINDOW, used, 30)
        life = lived(life, _WINDOW, used)
    alone = [_lived([used[index] for used in usage]) for index in range(2)]
    assert recent == alone[0][1] + alone[1][1]
    assert ahead(life, recent, _WINDOW)[1:] == tuple(
        figure for each in alone for figure in ahead(*each, _WINDOW)[1:]
    )
