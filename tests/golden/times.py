"""Times of a golden scenario in whole milliseconds, in their order.

Scenarios have times in microseconds; the stages use milliseconds. In a scenario with finer times, all times that
are compared with each other keep their second, and their fractions of a second become 0, 1, 2 ... ms in their
order. So comparisons have the same result, also with offsets of whole seconds, which are the only offsets in
such scenarios.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

#: Keys of times that are compared with each other.
_COMPARED = (
    ("createdAt",),
    ("assignTime", "initializedTime", "now", "scheduledTime", "updateTime"),
)
_SECOND_DIGITS = len("2026-08-03T12:00:00")
_MILLISECOND_DIGITS = 3
_RANKS_MAX = 1_000


def in_milliseconds(scenario: Mapping[str, Any]) -> Any:
    """Return the scenario with times in milliseconds, in the same order.

    Raises:
        ValueError: the scenario has more than 1,000 different fractions of a second.
    """
    result: Any = scenario
    for keys in _COMPARED:
        parts = sorted({_part(text) for text in _times(result, keys)})
        if not any(len(part) > _MILLISECOND_DIGITS for part in parts):
            continue
        if len(parts) > _RANKS_MAX:
            raise ValueError(
                f"{len(parts)} parts of a second in {', '.join(keys)}; at most {_RANKS_MAX} can be distinguished"
            )
        ranks = {part: f".{rank:03}Z" for rank, part in enumerate(parts)}
        result = _replace_times(result, keys, ranks)
    return result


def _part(text: str) -> str:
    """Return the digits after the second without trailing zeros; texts and numbers have the same order."""
    return text[_SECOND_DIGITS:].strip(".Z").rstrip("0")


def _times(value: Any, keys: Collection[str]) -> Iterator[str]:
    if isinstance(value, list):
        for item in value:
            yield from _times(item, keys)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in keys and isinstance(item, str):
                yield item
            else:
                yield from _times(item, keys)


def _replace_times(value: Any, keys: Collection[str], ranks: Mapping[str, str]) -> Any:
    if isinstance(value, list):
        return [_replace_times(item, keys, ranks) for item in value]
    if not isinstance(value, dict):
        return value
    return {
        key: item[:_SECOND_DIGITS] + ranks[_part(item)]
        if key in keys and isinstance(item, str)
        else _replace_times(item, keys, ranks)
        for key, item in value.items()
    }
