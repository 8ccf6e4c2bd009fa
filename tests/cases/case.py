"""A situation with its input and right outcome, and the list of all situations."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

Outcome = Callable[[], object]


@dataclass(frozen=True)
class Case:
    number: str
    """Number in the list of field reports, or the tested part of the product."""
    input: str
    right: str
    find_outcome: Outcome
    defect: str = ""
    """Why the outcome is still wrong; empty: the outcome must be right."""

    def run(self) -> str:
        """Return the outcome as text; an exception is a wrong outcome."""
        try:
            return str(self.find_outcome())
        except Exception as error:
            return f"{type(error).__name__}: {error}"


CASES: list[Case] = []


def case(
    number: str, situation: str, *, right: str, defect: str = ""
) -> Callable[[Outcome], Outcome]:

    def register(function: Outcome) -> Outcome:
        CASES.append(Case(number, situation, right, function, defect))
        return function

    return register


def cases(
    number: str, *situations: tuple[Any, ...]
) -> Callable[[Callable[[Any], object]], Callable[[Any], object]]:
    """Decorate a function that returns the outcome of a value, for several situations.

    A situation has the text of the input, the value, the right outcome, and optionally why the outcome is
    still wrong. Without `number`, each value begins with a number.
    """

    def register(function: Callable[[Any], object]) -> Callable[[Any], object]:
        for index, (situation, value, right, *reason) in enumerate(situations):
            name = f"{number}{chr(ord('a') + index)}" if number else str(value[0])
            CASES.append(Case(name, situation, right, partial(function, value), "".join(reason)))
        return function

    return register
