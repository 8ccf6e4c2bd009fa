"""Times of measurements with wrong clocks."""

from hypothesis import given
from hypothesis import strategies as st

from connectors.kubernetes.sources.health import SKEW_MAX_MS
from connectors.kubernetes.sources.http import AnswerTimes, choose_sample_time

T0 = 1_770_000_000_000


def _answer_times(date_ms: int | None) -> AnswerTimes:
    return AnswerTimes(T0, T0 + 100, date_ms)


def test_a_correct_clock_keeps_the_time_of_the_node() -> None:
    at_ms, skew_ms = choose_sample_time(_answer_times(T0), T0 - 7_000)
    assert at_ms == T0 - 7_000
    assert abs(skew_ms or 0) <= 1_000


def test_without_a_stamp_it_is_the_time_of_receipt() -> None:
    assert choose_sample_time(_answer_times(T0 + 10**9), None)[0] == T0 + 100


def test_without_a_date_only_a_future_timestamp_shows_a_wrong_clock() -> None:
    assert choose_sample_time(_answer_times(None), T0 - 600_000) == (T0 - 600_000, None)
    assert choose_sample_time(_answer_times(None), T0 + 600_000) == (T0 + 100, 599_900)


@given(st.integers(-(10**9), 10**9), st.integers(0, 60_000))
def test_a_wrong_clock_is_corrected_to_about_the_time_of_measurement(
    skew_ms: int, age_ms: int
) -> None:
    date_ms = (T0 + 50 + skew_ms) // 1_000 * 1_000
    at_ms, _ = choose_sample_time(_answer_times(date_ms), T0 + skew_ms - age_ms)
    assert abs(at_ms - (T0 - age_ms)) <= SKEW_MAX_MS + 1_000
    assert at_ms <= T0 + 100 + SKEW_MAX_MS
    if abs(skew_ms) < SKEW_MAX_MS - 1_000:
        assert at_ms == T0 + skew_ms - age_ms
