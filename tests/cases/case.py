"""A situation with its input and right outcome, and the register of all of them."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

Outcome = Callable[[], object]


@dataclass(frozen=True)
class Case:
    """One situation."""

    number: str
    """Number in the list of field reports, or the part of the product that it is about."""
    input: str
    right: str
    find_outcome: Outcome
    open: str = ""
    """Why the outcome is still wrong; empty: it must be right."""

    def run(self) -> str:
        """Return the outcome as text; an exception is an outcome, too, and never a right one."""
        try:
            return str(self.find_outcome())
        except Exception as error:
            return f"{type(error).__name__}: {error}"


CASES: list[Case] = []


def case(
    number: str, situation: str, *, right: str, open: str = ""
) -> Callable[[Outcome], Outcome]:
    """Register a function that returns the outcome of a situation."""

    def register(function: Outcome) -> Outcome:
        CASES.append(Case(number, situation, right, function, open))
        return function

    return register


def cases(
    number: str, *situations: tuple[Any, ...]
) -> Callable[[Callable[[Any], object]], Callable[[Any], object]]:
    """Register a function of a value for several situations: text of the input, value, right outcome,
    and why the outcome is still wrong, if it is. Without a number, values begin with one."""

    def register(function: Callable[[Any], object]) -> Callable[[Any], object]:
        for index, (situation, value, right, *reason) in enumerate(situations):
            name = f"{number}{chr(ord('a') + index)}" if number else str(value[0])
            CASES.append(Case(name, situation, right, partial(function, value), "".join(reason)))
        return function

    return register
