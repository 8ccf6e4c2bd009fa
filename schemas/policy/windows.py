"""Weekly windows in a time zone of fixed offset.

    {days: [mon, tue], from: "22:00", to: "06:00", utcOffset: "+08:00"}

A window begins at `from` on each of its days and ends at the next `to`: a window from 22:00 to 06:00 on
mon ends on Tuesday morning, and a window with equal `from` and `to` lasts 24 hours. Offsets are fixed,
because time zone tables change and a replay must make the same decisions.
"""

import re
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from schemas.policy.errors import not_allowed
from schemas.policy.parts import Items, PolicyPart

Day = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
DAYS: tuple[Day, ...] = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")

MINUTE_MS = 60_000
DAY_MS = 1_440 * MINUTE_MS
WEEK_MS = 7 * DAY_MS
_WEEK_MINUTES = 7 * 1_440
#: A bit for each minute of a week.
EVERY_MINUTE = (1 << _WEEK_MINUTES) - 1
#: 1970-01-01 was a Thursday, three days after Monday.
_MONDAY_SHIFT_MS = 3 * DAY_MS
#: Most windows in one list.
WINDOWS_MAX = 64

_TIME = re.compile(r"([01][0-9]|2[0-3]):([0-5][0-9])", re.ASCII)
_OFFSET = re.compile(r"([+-])(0[0-9]|1[0-4]):([0-5][0-9])", re.ASCII)


def _check_time(text: str) -> str:
    if _TIME.fullmatch(text) or text == "24:00":
        return text
    raise not_allowed('a time of day such as "06:30", in quotes, from "00:00" to "24:00"')


def _check_offset(text: str) -> str:
    if _OFFSET.fullmatch(text) and text[1:] <= "14:00":
        return text
    raise not_allowed('an offset from UTC such as "+08:00", in quotes, from "-14:00" to "+14:00"')


def _minutes(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * 60 + int(minutes)


def _check_distinct(days: tuple[Day, ...]) -> tuple[Day, ...]:
    if len(set(days)) == len(days):
        return days
    raise not_allowed("days that differ")


class WeeklyWindow(PolicyPart):
    """A period that repeats every week."""

    days: Annotated[Items[Day], Field(max_length=7), AfterValidator(_check_distinct)] = ()
    """Days on which it begins (`mon` to `sun`); none: every day."""
    start: Annotated[str, AfterValidator(_check_time)] = Field("00:00", alias="from")
    """Time of day at which it begins."""
    end: Annotated[str, AfterValidator(_check_time)] = Field("24:00", alias="to")
    """Time of day at which it ends; on the next day if it is not after `from`."""
    utc_offset: Annotated[str, AfterValidator(_check_offset)] = "+00:00"
    """Offset of its times from UTC. It does not follow daylight saving time."""

    @cached_property
    def minutes(self) -> int:
        """The open minutes of a week as a bit mask."""
        bits = 0
        for begin_ms, length_ms in self._spans:
            bits |= ((1 << length_ms // MINUTE_MS) - 1) << begin_ms // MINUTE_MS
        return bits & EVERY_MINUTE | bits >> _WEEK_MINUTES

    @cached_property
    def _spans(self) -> tuple[tuple[int, int], ...]:
        """Begin (in milliseconds since Monday 00:00 UTC) and length of each opening."""
        start, end = _minutes(self.start), _minutes(self.end)
        length = (end - start) % 1_440 or 1_440
        sign = -1 if self.utc_offset[0] == "-" else 1
        shift = sign * _minutes(self.utc_offset[1:])
        return tuple(
            (
                ((DAYS.index(day) * 1_440 + start - shift) * MINUTE_MS) % WEEK_MS,
                length * MINUTE_MS,
            )
            for day in (self.days or DAYS)
        )

    def contains(self, at_ms: int) -> bool:
        """Tell whether a time (milliseconds since 1970-01-01 UTC) is in the window."""
        week_ms = (at_ms + _MONDAY_SHIFT_MS) % WEEK_MS
        return any((week_ms - begin) % WEEK_MS < length for begin, length in self._spans)

    def opens_after_ms(self, at_ms: int) -> int:
        """Return the time until the window opens; 0 while it is open."""
        if self.contains(at_ms):
            return 0
        week_ms = (at_ms + _MONDAY_SHIFT_MS) % WEEK_MS
        return min((begin - week_ms) % WEEK_MS for begin, _ in self._spans)

    def __str__(self) -> str:
        """Return, for example, "mon, tue 22:00 to 06:00 +08:00"."""
        days = ", ".join(self.days) if self.days else "every day"
        return f"{days} {self.start} to {self.end} {self.utc_offset}"


#: A list of windows: open while any window is open. An empty list is always open.
Windows = Annotated[Items[WeeklyWindow], Field(max_length=WINDOWS_MAX)]


def open_minutes(windows: Sequence[WeeklyWindow]) -> int:
    """Return the minutes of a week in which one of the windows is open, as a bit mask."""
    bits = 0
    for window in windows:
        bits |= window.minutes
    return bits


def opens_after_ms(windows: tuple[WeeklyWindow, ...], at_ms: int) -> int:
    """Return the time until one of the windows opens; 0 while one is open, or if the list is empty."""
    return min((window.opens_after_ms(at_ms) for window in windows), default=0)
