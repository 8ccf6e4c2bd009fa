from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.usage.rounding import UNBOUNDED, compute_percent, find_largest_usage, round_half_away

int64 = st.integers(-(2**63), 2**63 - 1)
capacities = st.one_of(st.integers(1, 200_000), st.integers(1, 2**63 - 1))
thresholds = st.one_of(st.integers(0, 100), st.integers(-200, 1000))


@pytest.mark.parametrize(
    ("value", "rounded"),
    [
        (0.0, 0),
        (0.49999999999999994, 0),
        (0.5, 1),
        (1.5, 2),
        (2.5, 3),
        (-0.4, 0),
        (-0.5, -1),
        (-2.5, -3),
        (65.49, 65),
        (65.5, 66),
        (4503599627370497.5, 4503599627370498),
        (1e300, int(1e300)),
    ],
)
def test_halves_are_rounded_away_from_zero(value: float, rounded: int) -> None:
    assert round_half_away(value) == rounded


@given(st.floats(-1e15, 1e15))
def test_rounding_is_nearest(value: float) -> None:
    exact = Fraction(value)
    rounded = round_half_away(value)
    assert abs(rounded - exact) <= Fraction(1, 2)
    if abs(rounded - exact) == Fraction(1, 2):
        assert abs(rounded) > abs(exact)


@pytest.mark.parametrize(
    ("used", "total", "percent"),
    [
        (0, 1, 0),
        (6549, 10_000, 65),
        (6550, 10_000, 66),
        (10_000, 10_000, 100),
        (25_000, 10_000, 250),
        # 0.5 % exactly, but the float64 quotient times 100 says otherwise for some of these.
        (1, 200, 1),
        (57, 200, 28),
        (2**63 - 1, 2**63 - 1, 100),
    ],
)
def test_a_percentage_is_rounded_after_float_division(used: int, total: int, percent: int) -> None:
    assert compute_percent(used, total) == percent


@given(capacities, int64, st.integers(0, 2**63 - 1))
def test_a_comparison_with_the_largest_usage_replaces_the_division(
    total: int, threshold: int, used: int
) -> None:
    exceeds = compute_percent(used, total) > threshold
    assert (used > find_largest_usage(total, threshold)) == exceeds


@pytest.mark.parametrize(
    ("total", "threshold", "largest"),
    [
        (10_000, 65, 6_549),
        (10_000, 95, 9_549),
        (100, 0, 0),
        (1, 100, 1),
        (1, 2**63 - 1, 92_233_720_368_547_752),
        (2**63 - 1, 2**63 - 1, UNBOUNDED),
        (2**63 - 1, -(2**63), -UNBOUNDED),
    ],
)
def test_the_largest_usage_stays_within_64_bits(total: int, threshold: int, largest: int) -> None:
    assert find_largest_usage(total, threshold) == largest
