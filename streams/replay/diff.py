"""Where two values read from JSON differ: paths into them, and what stands at each on both sides."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

import orjson

#: Most paths that are named of two records; more would not help to find a cause.
PATHS_MAX = 20
#: Longest text that a value is shown by.
TEXT_CHARS_MAX = 160


class _Nothing:
    """Stands for a value that is not there, which null is not."""

    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()


@dataclass(frozen=True, slots=True)
class PathDifference:
    """One place in which two records differ."""

    path: tuple[str | int, ...]
    """Names and indices from the outside in; empty: the whole record."""
    recorded: Any
    """Value on the recorded side; `NOTHING` if there is none."""
    replayed: Any
    """Value on the replayed side; `NOTHING` if there is none."""

    @property
    def name(self) -> str:
        """The path as in `as_of.offsets.clock` or `runners_up[0].node`."""
        text = ""
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
        return text or "the whole"


def compare(recorded: Any, replayed: Any) -> list[PathDifference]:
    """The innermost places in which two values differ, in the order of their names.

    At most `PATHS_MAX`; at least one: equal values differ as a whole, as bytes.
    """
    found = list(islice(_walk((), recorded, replayed), PATHS_MAX))
    return found or [PathDifference((), recorded, replayed)]


def parsed(value: bytes) -> Any:
    """The JSON value, or the bytes themselves if they are none."""
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


def at(value: Any, path: tuple[str | int, ...]) -> Any:
    """What stands at a path; `NOTHING` if nothing does."""
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else NOTHING
        else:
            value = value.get(step, NOTHING) if isinstance(value, dict) else NOTHING
    return value


def shown(value: Any) -> str:
    """A value in a line of bounded length."""
    if isinstance(value, _Nothing):
        return repr(value)
    text = repr(value) if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False)
    if len(text) <= TEXT_CHARS_MAX:
        return text
    half = TEXT_CHARS_MAX // 2
    return f"{text[:half]} ... {text[-half:]} ({len(text)} characters)"


def _walk(path: tuple[str | int, ...], left: Any, right: Any) -> Iterator[PathDifference]:
    if isinstance(left, dict) and isinstance(right, dict):
        for name in sorted(left.keys() | right.keys()):
            yield from _walk((*path, name), left.get(name, NOTHING), right.get(name, NOTHING))
    elif isinstance(left, list) and isinstance(right, list):
        for index in range(max(len(left), len(right))):
            yield from _walk((*path, index), at(left, (index,)), at(right, (index,)))
    elif type(left) is not type(right) or left != right:
        yield PathDifference(path, left, right)
