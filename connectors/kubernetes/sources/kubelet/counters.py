"""Counters of a kubelet's `/metrics/resource`, and rates of CPU time.

The answer is text in the Prometheus exposition format, version 0.0.4: the lines of a metric are
consecutive, each `name{label="value",...} number milliseconds` with an optional time. Thousands of nodes
answer every ten seconds, and a general parser takes ten times as long. So only the lines of requested
metrics are parsed, and labels stay bytes until a series is new.
"""

import math
import re
from functools import cache

from schemas.base.message import AMOUNT_MAX

#: Time of a line without a time.
UNTIMED = -1
#: Readings within this time count as one, in ms, because kubelets answer from a cache.
RATE_MIN_MS = 100
#: Longest time between the readings of a rate, in ms, unless the interval is longer.
RATE_MAX_MS = 300_000

#: Bytes of labels, number, time in ms.
Sample = tuple[bytes, float, int]

_LABEL = re.compile(rb'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class NoExposition(ValueError):
    """The text is invalid; the message says why."""


def parse_samples(body: bytes, metric: bytes) -> list[Sample]:
    """Return the lines of one metric, without numbers that are not finite; raises NoExposition."""
    first = _find_first(body, metric)
    if first < 0:
        return []
    end = body.find(b"\n", max(first, body.rfind(b"\n" + metric) + 1))
    samples = []
    for labels, number, at in _pattern(metric).findall(body, first, end + 1):
        try:
            value = float(number)
        except ValueError as error:
            raise NoExposition(
                f"a line of {metric.decode()} has no number: {number[:40]!r}"
            ) from error
        if math.isfinite(value):
            samples.append((labels, value, int(at) if at else UNTIMED))
    return samples


def check_complete(body: bytes) -> None:
    """Raise NoExposition if the body is not text with metrics, or ends within a line."""
    if not body.endswith(b"\n"):
        raise NoExposition(
            f"the answer has {len(body)} bytes and ends in the middle of a line"
            if body
            else "the answer is empty"
        )
    if b"\x00" in body or body[:1] in (b"{", b"<"):
        raise NoExposition(f"the answer is not text with metrics; it begins with {body[:40]!r}")


def parse_labels(text: bytes) -> dict[str, str]:
    """Return the labels of a series; raises NoExposition."""
    try:
        return {
            name.decode(): _ESCAPED.sub(_unescape, value.decode())
            for name, value in _LABEL.findall(text)
        }
    except UnicodeDecodeError as error:
        raise NoExposition(f"labels are not UTF-8: {text[:80]!r}") from error


def _find_first(body: bytes, metric: bytes) -> int:
    """Return the position of the first line of a metric; -1: none."""
    if body.startswith(metric):
        return 0
    return body.find(b"\n" + metric) + 1 or -1


@cache
def _pattern(metric: bytes) -> re.Pattern[bytes]:
    # A label's value can have any byte except a line feed, including escaped quotes and braces. Long runs
    # are matched at once; alternatives for each byte take three times as long.
    quoted = rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    labels = rb'[^"}\n]*(?:' + quoted + rb'[^"}\n]*)*'
    line = rb"^" + metric + rb"(?:\{(" + labels + rb")\})? ([^ \n]+)(?: (-?[0-9]+))?$"
    return re.compile(line, re.MULTILINE)


def _unescape(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]


class CpuCounter:
    """CPU seconds of one node, pod or container, and their rate.

    A rate is the mean between two readings of a counter, by the times of the readings. A reading gives no rate,
    and only starts the next one, if

    - the counter has decreased or has another start time, because the container was restarted;
    - the previous reading was 0, because it may be from long before;
    - the previous reading is too old.

    A reading of 0 after a larger reading (the container is ending), or with an earlier time, is dropped. So
    the rates together never exceed the real usage.
    """

    __slots__ = ("at_ms", "began_s", "millicores", "seconds", "span_ms")

    def __init__(self, seconds: float, at_ms: int, began_s: float | None = None) -> None:
        self.seconds = seconds
        self.at_ms = at_ms
        self.began_s = began_s
        """Start time of the container; None: unknown."""
        self.millicores: int | None = None
        """The rate that ends at `at_ms`; None: unknown."""
        self.span_ms = 0
        """The time over which the rate is averaged."""

    def take(
        self,
        seconds: float,
        at_ms: int,
        longest_ms: int = RATE_MAX_MS,
        began_s: float | None = None,
    ) -> None:
        """Add a reading; a rate is averaged over at most `longest_ms`."""
        span_ms, used = at_ms - self.at_ms, seconds - self.seconds
        if 0 <= span_ms < RATE_MIN_MS and used >= 0:
            return  # not new: the last rate stays
        self.millicores, self.span_ms = None, 0
        # If the clock was set back by more than `longest_ms`, the counter starts again.
        if -longest_ms <= span_ms < 0 or (seconds == 0 and self.seconds > 0):
            return
        if began_s is not None and self.began_s is not None and began_s != self.began_s:
            used = -1.0
        self.began_s = began_s
        if used >= 0 and 0 < span_ms <= longest_ms and (self.seconds > 0 or used == 0):
            rate = used * 1e6 / span_ms
            if rate <= AMOUNT_MAX:
                self.millicores, self.span_ms = int(rate + 0.5), span_ms
        self.seconds, self.at_ms = seconds, at_ms
