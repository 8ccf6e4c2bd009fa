"""Rates from counters of CPU time."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from connectors.kubernetes.sources.kubelet.counters import RATE_MAX_MS, CpuCounter

#: Readings: ms and used CPU seconds since the last reading, whether the counter was reset before.
_histories = st.lists(
    st.tuples(st.integers(0, 20_000), st.floats(0, 64, allow_subnormal=False), st.booleans()),
    max_size=30,
)


@given(st.floats(0.001, 1e6), _histories)
def test_rates_are_never_negative_and_add_up_to_at_most_the_used_time(
    start: float, history: list[tuple[int, float, bool]]
) -> None:
    counter, at_ms, value, used, reported = CpuCounter(start, 0), 0, start, 0.0, 0.0
    last_at_ms = 0
    for span_ms, seconds, anew in history:
        at_ms += span_ms
        used += seconds
        value = seconds if anew else value + seconds
        counter.take(value, at_ms)
        if counter.at_ms == last_at_ms:
            continue
        last_at_ms = counter.at_ms
        if counter.millicores is not None:
            assert counter.millicores >= 0
            reported += counter.millicores * counter.span_ms / 1e6
    rounding = 0.5 * at_ms / 1e6 + 1e-6 * (1 + start + used)
    assert reported <= used + rounding


@given(st.floats(10.0, 1e6), st.lists(st.floats(0, 64), min_size=1, max_size=20))
def test_without_a_reset_rates_add_up_to_the_used_time(start: float, used: list[float]) -> None:
    counter, value, reported = CpuCounter(start, 0), start, 0.0
    for index, seconds in enumerate(used):
        value += seconds
        counter.take(value, (index + 1) * 10_000)
        assert counter.millicores is not None
        reported += counter.millicores * counter.span_ms / 1e6
    assert reported == pytest.approx(sum(used), abs=0.006 * len(used))


def test_a_rate_is_the_mean_between_two_readings() -> None:
    counter = CpuCounter(100.0, 1_000)
    counter.take(115.0, 11_000)
    assert (counter.millicores, counter.span_ms) == (1_500, 10_000)


def test_the_first_increase_of_a_counter_from_0_gives_no_rate() -> None:
    counter = CpuCounter(0.0, 0)
    counter.take(0.0, 10_000)
    assert counter.millicores == 0
    counter.take(3_600.0, 20_000)
    assert counter.millicores is None
    counter.take(3_605.0, 30_000)
    assert counter.millicores == 500


def test_a_reading_with_the_same_time_is_ignored() -> None:
    counter = CpuCounter(100.0, 0)
    counter.take(105.0, 10_000)
    counter.take(105.0, 10_000)
    counter.take(105.1, 10_050)
    assert (counter.millicores, counter.at_ms) == (500, 10_000)


def test_a_rate_is_not_measured_from_a_reading_that_is_too_old() -> None:
    counter = CpuCounter(100.0, 0)
    counter.take(200.0, RATE_MAX_MS + 1)
    assert counter.millicores is None


def test_rates_restart_after_a_clock_was_set_back() -> None:
    counter = CpuCounter(100.0, 1_000_000)
    counter.take(200.0, 50_000)
    assert counter.millicores is None
    counter.take(210.0, 60_000)
    assert counter.millicores == 1_000


def test_an_impossible_rate_is_dropped() -> None:
    counter = CpuCounter(1.0, 0)
    counter.take(1e300, 10_000)
    assert counter.millicores is None
