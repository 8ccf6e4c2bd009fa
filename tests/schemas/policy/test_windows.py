"""Times inside and outside of weekly windows."""

from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from schemas.policy.windows import DAYS, WEEK_MS, WeeklyWindow, opens_after_ms

#: 2026-11-16 was a Monday.
MONDAY = datetime(2026, 11, 16, tzinfo=UTC)


def window(**fields: Any) -> WeeklyWindow:
    return WeeklyWindow.model_validate(fields)


def ms(day: int, hour: int, minute: int = 0, offset_hours: int = 0) -> int:
    zone = timezone(timedelta(hours=offset_hours))
    at = MONDAY.replace(tzinfo=zone) + timedelta(days=day, hours=hour, minutes=minute)
    return int(at.timestamp() * 1000)


def test_times_are_those_of_the_offset() -> None:
    morning = window(days=["tue"], utcOffset="+08:00", **{"from": "01:00", "to": "02:00"})
    assert morning.contains(ms(1, 1, 30, offset_hours=8))
    assert morning.contains(ms(0, 17, 30))
    assert not morning.contains(ms(1, 1, 30))


def test_a_list_without_windows_is_always_open() -> None:
    assert opens_after_ms((), ms(0, 0)) == 0


def test_the_time_until_a_window_opens_is_reported() -> None:
    windows = (window(days=["wed"], **{"from": "10:00"}), window(days=["tue"], **{"from": "10:00"}))
    assert opens_after_ms(windows, ms(0, 9)) == 25 * 3_600_000


@pytest.mark.parametrize(
    "fields",
    [
        {"from": "24:30"},
        {"from": "9:00"},
        {"from": 900},
        {"to": "06:60"},
        {"days": ["Monday"]},
        {"days": ["mon", "mon"]},
        {"utcOffset": "+15:00"},
        {"utcOffset": "+14:30"},
        {"utcOffset": "08:00"},
        {"timezone": "Asia/Shanghai"},
    ],
)
def test_invalid_windows_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        window(**fields)


@given(
    days=st.lists(st.sampled_from(DAYS), unique=True, max_size=3),
    start=st.times(),
    end=st.times(),
    offset=st.integers(-14, 14),
    at=st.integers(0, 2**41),
)
def test_windows_agree_with_a_calendar(
    days: list[Any], start: Any, end: Any, offset: int, at: int
) -> None:
    text = f"{'-' if offset < 0 else '+'}{abs(offset):02}:00"
    fields = {"from": start.strftime("%H:%M"), "to": end.strftime("%H:%M"), "utcOffset": text}
    weekly = window(days=days, **fields)
    local = datetime.fromtimestamp(at / 1000, timezone(timedelta(hours=offset)))
    begin = timedelta(hours=start.hour, minutes=start.minute)
    length = timedelta(hours=end.hour, minutes=end.minute) - begin
    length = length if length > timedelta() else length + timedelta(days=1)
    expected = False
    for back in range(2):
        midnight = local.replace(hour=0, minute=0, second=0, microsecond=0) - timedelta(days=back)
        is_listed_day = not days or DAYS[midnight.weekday()] in days
        expected |= is_listed_day and begin <= local - midnight < begin + length
    assert weekly.contains(at) == expected
    wait = weekly.opens_after_ms(at)
    assert (wait == 0) == expected
    assert weekly.contains(at + wait)
    assert 0 <= wait < WEEK_MS
