"""What every family of golden scenarios is compared by: rounds exactly, refused arguments only as refused."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]
#: The lines in which two answers to one round differ: number of the round, expected, found.
RoundDifferences = Callable[[int, Json, Json], Iterator[str]]

_NAMES = {"error": "an error", "refused": "a scenario that is refused"}
#: Characters of an error that are shown.
_TEXT_MAX = 300


def agree(expected: Json, found: Json) -> bool:
    """Equal; of an error only that there is one. A scenario that was refused agrees with nothing."""
    if "refused" in found:
        return False
    if "error" in expected or "error" in found:
        return "error" in expected and "error" in found
    return bool(expected["rounds"] == found["rounds"])


def differences_by_round(expected: Json, found: Json, of_round: RoundDifferences) -> Iterator[str]:
    """Each difference in a line."""
    if {"error", "refused"} & {*expected, *found}:
        yield f"expected {_short(expected)}, found {_short(found)}"
        return
    for number, (want, got) in enumerate(zip(expected["rounds"], found["rounds"], strict=True)):
        yield from of_round(number, want, got)


def _short(result: Json) -> str:
    for found in ("error", "refused"):
        if found in result:
            return f"{_NAMES[found]} ({result[found][:_TEXT_MAX]})"
    return "an answer"
