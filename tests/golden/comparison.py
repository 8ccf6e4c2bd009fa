"""Compares answers to golden scenarios: rounds exactly, refused arguments only as refused."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

Json = Mapping[str, Any]
#: Yields the differences of a round from its number, the expected and the actual answer.
RoundDifferences = Callable[[int, Json, Json], Iterator[str]]

_NAMES = {"error": "an error", "refused": "a scenario that is refused"}
#: Longest text of an error that is shown.
_TEXT_MAX = 300


def agree(expected: Json, answer: Json) -> bool:
    """Compare answers. Errors are equal whatever their text; a refused scenario never agrees."""
    if "refused" in answer:
        return False
    if "error" in expected or "error" in answer:
        return "error" in expected and "error" in answer
    return bool(expected["rounds"] == answer["rounds"])


def differences_by_round(expected: Json, answer: Json, of_round: RoundDifferences) -> Iterator[str]:
    """Yield one line per difference."""
    if {"error", "refused"} & {*expected, *answer}:
        yield f"expected {_short(expected)}, found {_short(answer)}"
        return
    for number, (want, got) in enumerate(zip(expected["rounds"], answer["rounds"], strict=True)):
        yield from of_round(number, want, got)


def _short(result: Json) -> str:
    for kind in ("error", "refused"):
        if kind in result:
            return f"{_NAMES[kind]} ({result[kind][:_TEXT_MAX]})"
    return "an answer"
