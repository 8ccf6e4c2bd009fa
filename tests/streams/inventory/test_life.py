import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.inventory.life import MINUTES_MAX, PARTS, Life, lived

_STRETCHES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 64_000)), min_size=1, max_size=40)


@given(_STRETCHES)
def test_mean_and_deviation_are_those_of_all_minutes(stretches: list[tuple[int, int]]) -> None:
    life: Life | None = None
    for minutes, used in stretches:
        life = lived(life, minutes, [used])
    assert life is not None
    each = [used for minutes, used in stretches for _ in range(minutes)]
    mean = math.fsum(each) / len(each)
    deviation = math.sqrt(math.fsum((used - mean) ** 2 for used in each) / len(each))
    # Each stretch rounds down by less than a thousandth.
    assert life[0] == len(each)
    assert life[1] / PARTS == pytest.approx(mean, abs=len(stretches) / PARTS)
    assert life[2] / PARTS == pytest.approx(deviation, abs=0.1 + len(stretches) / PARTS)


def test_resources_are_apart() -> None:
    life = lived(lived(None, 5, [100, 7]), 5, [300, 7])
    assert life == (10, 200 * PARTS, 100 * PARTS, 7 * PARTS, 0)


def test_after_a_week_what_was_long_ago_is_forgotten() -> None:
    life: Life | None = None
    for _ in range(MINUTES_MAX // 5):
        life = lived(life, 5, [1_000])
    for _ in range(8 * MINUTES_MAX // 5):
        life = lived(life, 5, [0])
    assert life is not None
    assert life[0] == MINUTES_MAX
    assert life[1] < PARTS


def test_the_largest_amounts_stay_within_64_bits() -> None:
    life = lived(lived(None, 5, [0]), 5, [2**50])
    assert all(figure < 2**63 for figure in life)
