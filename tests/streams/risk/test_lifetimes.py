import math
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from streams.risk.lifetimes import (
    MINUTES_MAX,
    PARTS,
    WINDOW_MINUTES,
    Lifetime,
    expect_usage,
    extend_lifetime,
    merge_lifetimes,
    start_lifetime,
    update_recent,
)

_STRETCHES = st.lists(st.tuples(st.integers(1, 5), st.integers(0, 64_000)), min_size=1, max_size=40)


@given(_STRETCHES)
def test_mean_and_deviation_are_those_of_all_minutes(stretches: list[tuple[int, int]]) -> None:
    lifetime: Lifetime | None = None
    for minutes, used in stretches:
        lifetime = extend_lifetime(lifetime, minutes, [used])
    assert lifetime is not None
    usages = [used for minutes, used in stretches for _ in range(minutes)]
    mean = math.fsum(usages) / len(usages)
    deviation = math.sqrt(math.fsum((used - mean) ** 2 for used in usages) / len(usages))
    # Each stretch rounds down by less than a thousandth.
    assert lifetime.minutes == len(usages)
    assert lifetime.usage[0] / PARTS == pytest.approx(mean, abs=len(stretches) / PARTS)
    assert lifetime.usage[1] / PARTS == pytest.approx(deviation, abs=0.1 + len(stretches) / PARTS)


def test_usage_of_more_than_a_week_ago_is_forgotten() -> None:
    lifetime: Lifetime | None = None
    for _ in range(MINUTES_MAX // 5):
        lifetime = extend_lifetime(lifetime, 5, [1_000])
    for _ in range(8 * MINUTES_MAX // 5):
        lifetime = extend_lifetime(lifetime, 5, [0])
    assert lifetime is not None
    assert lifetime.minutes == MINUTES_MAX
    assert lifetime.usage[0] < PARTS


def test_the_largest_amounts_stay_within_64_bits() -> None:
    lifetime = extend_lifetime(extend_lifetime(None, 5, [0]), 5, [2**50])
    assert all(figure < 2**63 for figure in lifetime.usage)


def test_a_resource_that_one_part_did_not_measure_starts_again() -> None:
    older = Lifetime(5, (100 * PARTS, 7, -1, -1, 40 * PARTS, 3))
    newer = Lifetime(5, (300 * PARTS, 7, 20 * PARTS, 2, -1, -1))
    assert merge_lifetimes(older, newer).usage[2:] == (20 * PARTS, 2, -1, -1)


# --- the recent average ---------------------------------------------------------------------------

_USAGE = st.lists(st.integers(0, 64_000), min_size=1, max_size=60)


def _extend(lifetime: Lifetime, usage: Sequence[int], recent_minutes: int = 30) -> Lifetime:
    recent = update_recent(lifetime, WINDOW_MINUTES, usage, recent_minutes)
    return extend_lifetime(lifetime, WINDOW_MINUTES, usage)._replace(recent=recent)


def _lifetime(usage: list[int], recent_minutes: int = 30) -> Lifetime:
    """A lifetime of windows with these usages."""
    lifetime = start_lifetime(WINDOW_MINUTES, [usage[0]])
    for used in usage[1:]:
        lifetime = _extend(lifetime, [used], recent_minutes)
    return lifetime


def _mean(lifetime: Lifetime) -> float:
    return lifetime.usage[0] / PARTS


def test_a_surge_after_a_quiet_day_is_expected_to_go_on_within_two_windows() -> None:
    lifetime = _lifetime([1_000] * 288 + [3_000] * 2)
    assert _mean(lifetime) == pytest.approx(1_000, rel=0.02)
    half_an_hour = _lifetime([1_000] * 288 + [3_000] * 6)
    assert _mean(expect_usage(lifetime)) > 1_200
    assert _mean(expect_usage(half_an_hour)) == pytest.approx(2_250, rel=0.1)


def test_usage_that_goes_up_and_down_by_chance_is_expected_at_its_mean() -> None:
    chance = random.Random(1)
    lifetime = _lifetime([chance.randrange(500, 1_500) for _ in range(288)])
    expected = expect_usage(lifetime)
    assert _mean(expected) == pytest.approx(_mean(lifetime), rel=0.03)
    assert expected.usage[1] == pytest.approx(lifetime.usage[1], rel=0.03)


def test_lasting_usage_halves_the_deviation() -> None:
    lifetime = _lifetime(([1_000] * 72 + [3_000] * 72) * 4)
    expected = expect_usage(lifetime)
    assert 0.5 * lifetime.usage[1] <= expected.usage[1] + 1
    assert expected.usage[1] < 0.6 * lifetime.usage[1]


def test_a_longer_memory_follows_more_slowly() -> None:
    surge = [1_000] * 100 + [3_000] * 4
    fast, slow = (_mean(expect_usage(_lifetime(surge, minutes))) for minutes in (10, 240))
    assert fast > slow > 1_000


def test_few_windows_have_little_weight() -> None:
    parts = []
    for before in (6, 200):
        lifetime = _lifetime([1_000] * before + [3_000] * 3)
        parts.append(
            (expect_usage(lifetime).usage[0] - lifetime.usage[0])
            / (lifetime.recent[0] - lifetime.usage[0])
        )
    assert 0 <= parts[0] < 0.2
    assert 0.5 < parts[1] <= 1


def test_in_the_first_minutes_the_mean_is_the_recent_usage() -> None:
    lifetime = _lifetime([1_000, 3_000, 500, 2_000])
    assert lifetime.recent[0] == pytest.approx(lifetime.usage[0], abs=5)


@given(_USAGE, st.integers(1, 1_440))
def test_expected_usage_is_between_the_mean_and_the_recent_average(
    usage: list[int], recent_minutes: int
) -> None:
    lifetime = _lifetime([usage[0], *usage], recent_minutes)
    expected = expect_usage(lifetime)
    assert (
        min(lifetime.usage[0], lifetime.recent[0]) - 1
        <= expected.usage[0]
        <= max(lifetime.usage[0], lifetime.recent[0]) + 1
    )
    assert 0 <= expected.usage[1] <= lifetime.usage[1]
    assert expected.minutes == lifetime.minutes
    assert 0 <= lifetime.recent[2] <= 1_000_000
