"""Durations as Kubernetes writes them (metav1.Duration): "5m", "1h30m", "1.5s", "-1ns".

The grammar is that of Go's `time.ParseDuration`. Values are whole milliseconds, rounded away from
zero, so that a small positive duration does not become 0, which often has a special meaning.
"""

import math
import re
from fractions import Fraction
from typing import Annotated, Any

from pydantic import BeforeValidator, PlainSerializer

from schemas.base.message import INT64_MAX
from schemas.policy.errors import not_allowed

_UNIT_NS = {
    "ns": 1,
    "us": 1_000,
    "µs": 1_000,  # U+00B5, micro sign
    "μs": 1_000,  # U+03BC, Greek letter mu
    "ms": 1_000_000,
    "s": 1_000_000_000,
    "m": 60_000_000_000,
    "h": 3_600_000_000_000,
}
_STEP = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h)", re.ASCII)
_ALLOWED = 'a duration such as "30s", "5m" or "1h30m"'
#: Longest text that is parsed: exact fractions of longer texts would only cost time.
_CHARACTERS_MAX = 64


def parse_duration_ms(text: str) -> int:
    """Return a Go duration in milliseconds, rounded away from zero.

    Raises `ValueError` if the text is not a duration or exceeds 64 bits of nanoseconds.
    """
    rest = text if len(text) <= _CHARACTERS_MAX else ""
    negative = rest.startswith("-")
    rest = rest[1:] if rest[:1] in ("+", "-") else rest
    if rest == "0":
        return 0
    total_ns = Fraction(0)
    position = 0
    while step := _STEP.match(rest, position):
        total_ns += Fraction(step[1] if step[1][-1] != "." else step[1][:-1]) * _UNIT_NS[step[2]]
        position = step.end()
    if not rest or position != len(rest) or total_ns > INT64_MAX:
        raise ValueError(f"{text!r} is not a duration; expected {_ALLOWED}")
    whole_ns = int(total_ns)
    milliseconds = -(-whole_ns // 1_000_000)
    return -milliseconds if negative else milliseconds


def format_duration_ms(milliseconds: int) -> str:
    """Return the shortest Go duration: 300000 is "5m", 1500 is "1.5s"."""
    sign, rest = ("-", -milliseconds) if milliseconds < 0 else ("", milliseconds)
    if rest < 1_000:
        return f"{sign}{rest}ms" if rest else "0s"
    seconds, thousandths = divmod(rest, 1_000)
    minutes, seconds = divmod(seconds, 60)
    hours, minutes = divmod(minutes, 60)
    text = (f"{hours}h" if hours else "") + (f"{minutes}m" if minutes else "")
    if thousandths:
        text += f"{seconds}.{thousandths:03}".rstrip("0") + "s"
    elif seconds:
        text += f"{seconds}s"
    return sign + text


def _at_least(low: float, allowed: str) -> BeforeValidator:
    """Parse a duration of at least `low` ms."""

    def parse(value: Any) -> int:
        try:
            milliseconds = parse_duration_ms(value) if isinstance(value, str) else None
        except ValueError:
            milliseconds = None
        if milliseconds is None or milliseconds < low:
            raise not_allowed(allowed)
        return milliseconds

    return BeforeValidator(parse)


_Written = PlainSerializer(format_duration_ms)
#: Milliseconds, written as a Go duration of either sign.
SignedDuration = Annotated[int, _at_least(-math.inf, _ALLOWED), _Written]
#: Milliseconds, 0 or more, written as a Go duration.
Duration = Annotated[int, _at_least(0, f"{_ALLOWED}, not below 0"), _Written]
#: Milliseconds, above 0, written as a Go duration.
PositiveDuration = Annotated[int, _at_least(1, f"{_ALLOWED}, above 0"), _Written]
