"""What every family of golden scenarios is compared by: rounds exactly, refused arguments only as refused."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]
#: The lines in which two answers to one round differ: number of the round, expected, found.
RoundDifferences = Callable[[int, Json, Json], Iterator[str]]


def agree(expected: Json, found: Json) -> bool:
    """Equal; of an error only that there is one."""
    if "error" in expected or "error" in found:
        return "error" in expected and "error" in found
    return bool(expected["rounds"] == found["rounds"])


def differences_by_round(expected: Json, found: Json, of_round: RoundDifferences) -> Iterator[str]:
    """Each difference in a line."""
    if "error" in expected or "error" in found:
        yield f"expected {_short(expected)}, found {_short(found)}"
        return
    for number, (want, got) in enumerate(zip(expected["rounds"], found["rounds"], strict=True)):
        yield from of_round(number, want, got)


def _short(result: Json) -> str:
    return f"an error ({result['error']})" if "error" in result else "an answer"
