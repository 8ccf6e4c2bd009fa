"""Durations are read as Go reads them, to whole milliseconds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.policy.durations import format_duration_ms, parse_duration_ms


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("0", 0),
        ("0s", 0),
        ("5m", 300_000),
        ("5m0s", 300_000),
        ("1h30m", 5_400_000),
        ("90s", 90_000),
        ("500ms", 500),
        ("1.5s", 1_500),
        (".5s", 500),
        ("1.s", 1_000),
        ("+2s", 2_000),
        ("-5m", -300_000),
        ("1h1h", 7_200_000),
        ("1µs", 1),
        ("1μs", 1),
        ("1000us", 1),
        ("1ns", 1),
        ("-1ns", -1),
        ("1000001ns", 2),
    ],
)
def test_durations_are_read_as_in_go(text: str, milliseconds: int) -> None:
    assert parse_duration_ms(text) == milliseconds


@pytest.mark.parametrize(
    "text",
    ["", "5", "5 m", "m", "1d", "-", "--1s", "1s-1s", ".s", "1,5s", "٣s", "9999999999h", "1s" * 50],
)
def test_invalid_durations_are_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match="expected a duration such as"):
        parse_duration_ms(text)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0s"),
        (7, "7ms"),
        (1_500, "1.5s"),
        (300_000, "5m"),
        (5_400_000, "1h30m"),
        (3_600_001, "1h0.001s"),
        (-90_000, "-1m30s"),
    ],
)
def test_durations_are_written_in_the_shortest_form(milliseconds: int, text: str) -> None:
    assert format_duration_ms(milliseconds) == text


@given(st.integers(min_value=-(10**12), max_value=10**12))
def test_written_durations_are_read_back(milliseconds: int) -> None:
    assert parse_duration_ms(format_duration_ms(milliseconds)) == milliseconds
