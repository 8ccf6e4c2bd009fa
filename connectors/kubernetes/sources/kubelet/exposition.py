"""The few figures that are needed from a kubelet's `/metrics/resource`, from its bytes.

The answer is text in the Prometheus exposition format, version 0.0.4: lines of one metric follow
each other, each `name{label="value",...} number milliseconds`, the time being optional. A general
parser takes ten times as long, and thousands of nodes answer every ten seconds. So only the lines
of the metrics asked for are looked at, and labels stay bytes: they are read where a series is new.
"""

import math
import re
from functools import cache

#: Where a line has no time of its own.
UNTIMED = -1

#: Bytes of labels, number, time in ms.
Sample = tuple[bytes, float, int]

_LABEL = re.compile(rb'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\.)*)"')
_ESCAPED = re.compile(r"\\(.)")


class NoExposition(ValueError):
    """The bytes are not in the format; the message says what is wrong."""


def samples(body: bytes, metric: bytes) -> list[Sample]:
    """The lines of one metric; raises NoExposition.

    A number that is not finite is left out.
    """
    first = _first(body, metric)
    if first < 0:
        return []
    end = body.find(b"\n", max(first, body.rfind(b"\n" + metric) + 1))
    found = []
    for labels, number, at in _pattern(metric).findall(body, first, end + 1):
        try:
            value = float(number)
        except ValueError as error:
            raise NoExposition(
                f"a line of {metric.decode()} has no number: {number[:40]!r}"
            ) from error
        if math.isfinite(value):
            found.append((labels, value, int(at) if at else UNTIMED))
    return found


def number(body: bytes, metric: bytes) -> Sample | None:
    """The only line of a metric; none: there is none. Raises NoExposition."""
    found = samples(body, metric)
    return found[0] if found else None


def whole(body: bytes) -> None:
    """Raise NoExposition if the body is no text of the format, or broke off in a line."""
    if not body.endswith(b"\n"):
        raise NoExposition(
            f"the answer has {len(body)} bytes and ends in the middle of a line"
            if body
            else "the answer is empty"
        )
    if b"\x00" in body or body[:1] in (b"{", b"<"):
        raise NoExposition(f"the answer is no text of metrics; it begins with {body[:40]!r}")


def labels_of(text: bytes) -> dict[str, str]:
    """The labels of a series; raises NoExposition."""
    try:
        return {
            name.decode(): _ESCAPED.sub(_unescaped, value.decode())
            for name, value in _LABEL.findall(text)
        }
    except UnicodeDecodeError as error:
        raise NoExposition(f"labels are not UTF-8: {text[:80]!r}") from error


def _first(body: bytes, metric: bytes) -> int:
    """Where the first line of a metric begins; -1: nowhere."""
    if body.startswith(metric):
        return 0
    return body.find(b"\n" + metric) + 1 or -1


@cache
def _pattern(metric: bytes) -> re.Pattern[bytes]:
    # A label's value may hold any byte but a line feed, escaped quotes and braces among them. The
    # long runs are matched at once; alternatives for each byte take three times as long.
    quoted = rb'"[^"\\\n]*(?:\\.[^"\\\n]*)*"'
    labels = rb'[^"}\n]*(?:' + quoted + rb'[^"}\n]*)*'
    line = rb"^" + metric + rb"(?:\{(" + labels + rb")\})? ([^ \n]+)(?: (-?[0-9]+))?$"
    return re.compile(line, re.MULTILINE)


def _unescaped(match: re.Match[str]) -> str:
    return "\n" if match[1] == "n" else match[1]
