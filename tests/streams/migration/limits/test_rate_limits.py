"""Token buckets are exact."""

from fractions import Fraction

from hypothesis import given
from hypothesis import strategies as st

from streams.migration.limits.rate_limits import (
    Bucket,
    Rate,
    build_full_bucket,
    build_rate,
    convert_per_second,
)

RATES = st.one_of(
    st.builds(convert_per_second, st.sampled_from((0.1, 0.5, 2.5, 3.3, 10.0)), st.integers(1, 4)),
    st.builds(build_rate, st.integers(1, 7), st.sampled_from((1, 999, 300_000)), st.integers(1, 4)),
)


def test_a_bucket_returns_the_time_of_its_next_token() -> None:
    rate = build_rate(3, 10_000, 1)
    empty = build_full_bucket(rate, 0).take_token()
    assert empty.compute_wait_ms(rate) == 3_334
    assert empty.fill(rate, 3_333).tokens == 0
    assert empty.fill(rate, 3_334).tokens == 1


def test_another_rate_keeps_the_part_of_a_token_rounded_down() -> None:
    half = Bucket(0, 5, 10, 0)
    rate = build_rate(1, 3, 2)
    assert half.fill(rate, 0) == Bucket(0, 1, 3, 0)


@given(rate=RATES, looks=st.lists(st.integers(0, 5_000), max_size=30))
def test_reading_a_bucket_does_not_change_it(rate: Rate, looks: list[int]) -> None:
    bucket = build_full_bucket(rate, 0)
    for _ in range(rate.burst):
        bucket = bucket.take_token()
    often, now_ms = bucket, 0
    for step_ms in looks:
        now_ms += step_ms
        often = often.fill(rate, now_ms)
        assert often == bucket.fill(rate, now_ms)
        assert often.tokens + Fraction(often.part, often.parts) == min(
            rate.burst, rate.per_ms * now_ms
        )


@given(rate=RATES, steps=st.lists(st.integers(0, 2_000), min_size=1, max_size=60))
def test_no_window_has_more_than_the_burst_and_the_rate_allow(rate: Rate, steps: list[int]) -> None:
    bucket, now_ms = build_full_bucket(rate, 0), 0
    times_ms: list[int] = []
    for step_ms in steps:
        now_ms += step_ms
        bucket = bucket.fill(rate, now_ms)
        if bucket.tokens:
            bucket = bucket.take_token()
            times_ms.append(now_ms)
    for first, start in enumerate(times_ms):
        for count, end in enumerate(times_ms[first:], start=1):
            assert count <= rate.burst + rate.per_ms * (end - start)
