"""Finds the paths at which two JSON values differ."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, zip_longest
from typing import Any

import orjson

#: Most paths per record.
PATHS_MAX = 20
#: Longest text of a value.
TEXT_CHARS_MAX = 160


class _Nothing:
    """A missing value; null is a value."""

    def __repr__(self) -> str:
        return "nothing"


NOTHING = _Nothing()


@dataclass(frozen=True, slots=True)
class PathDifference:
    """A path at which two records differ."""

    path: tuple[str | int, ...]
    """Names and indexes, outermost first; empty: the whole value."""
    recorded: Any
    """Recorded value, or `NOTHING`."""
    replayed: Any
    """Replayed value, or `NOTHING`."""

    @property
    def name(self) -> str:
        """The path as text, such as `as_of.offsets.clock` or `runners_up[0].node`."""
        text = ""
        for step in self.path:
            text += f"[{step}]" if isinstance(step, int) else f".{step}" if text else step
        return text or "the whole value"


def compare_values(recorded: Any, replayed: Any) -> list[PathDifference]:
    """Return the first `PATHS_MAX` innermost differences of two values, ordered by path.

    If the values are equal and only their bytes differ, the result is one difference with an empty path.
    """
    differences = list(islice(_walk((), recorded, replayed), PATHS_MAX))
    return differences or [PathDifference((), recorded, replayed)]


def parse_json(value: bytes) -> Any:
    """Return the JSON value, or the bytes if they are not JSON."""
    try:
        return orjson.loads(value)
    except orjson.JSONDecodeError:
        return value


def get_at_path(value: Any, path: tuple[str | int, ...]) -> Any:
    """Return the value at a path, or `NOTHING`."""
    for step in path:
        if isinstance(step, int):
            value = value[step] if isinstance(value, list) and step < len(value) else NOTHING
        else:
            value = value.get(step, NOTHING) if isinstance(value, dict) else NOTHING
    return value


def format_value(value: Any) -> str:
    """Return a value as one line of about `TEXT_CHARS_MAX` characters at most."""
    if isinstance(value, _Nothing):
        return repr(value)
    text = repr(value) if isinstance(value, bytes) else json.dumps(value, ensure_ascii=False)
    if len(text) <= TEXT_CHARS_MAX:
        return text
    half = TEXT_CHARS_MAX // 2
    return f"{text[:half]} ... {text[-half:]} ({len(text)} characters)"


def _walk(path: tuple[str | int, ...], recorded: Any, replayed: Any) -> Iterator[PathDifference]:
    if isinstance(recorded, dict) and isinstance(replayed, dict):
        for name in sorted(recorded.keys() | replayed.keys()):
            yield from _walk(
                (*path, name), recorded.get(name, NOTHING), replayed.get(name, NOTHING)
            )
    elif isinstance(recorded, list) and isinstance(replayed, list):
        for index, pair in enumerate(zip_longest(recorded, replayed, fillvalue=NOTHING)):
            yield from _walk((*path, index), *pair)
    elif type(recorded) is not type(replayed) or recorded != replayed:
        yield PathDifference(path, recorded, replayed)
