"""What is wrong with a policy document: every problem at once, each with its place.

    PolicyError
      └─ problems: Problem, Problem, ...   in the order of the document

A problem names the path as the author wrote it (`loadAware.usageThresholds.cpu`), the line, what
was found there and what is allowed. Nothing else than `PolicyError` is ever raised for a document.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

#: Steps from the root of a document to a value: field names, map keys and list positions.
Path = tuple[str | int, ...]
#: Where a value stands, and what is wrong with it.
Finding = tuple[Path, str]

#: Most problems that are reported.
PROBLEMS_MAX = 200

_PLAIN = re.compile(r"^[A-Za-z_][A-Za-z0-9_-]*$")


def path_text(path: Path) -> str:
    """The path as text: `rebalance.nodePools[0].highThresholds["example.com/gpu"]`."""
    text = ""
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        elif _PLAIN.match(step):
            text += f".{step}" if text else step
        else:
            text += f'["{step}"]'
    return text


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong."""

    path: str
    """Where, as a path; empty: the text as a whole."""
    message: str
    """What was found and what is allowed, as one sentence."""
    line: int | None = None
    """Line of the text, from 1; none: the value did not come from a text."""

    def __str__(self) -> str:
        place = ": ".join(
            part for part in (f"line {self.line}" if self.line else "", self.path) if part
        )
        return f"{place}: {self.message}" if place else self.message


#: Stands last where problems are left out.
FURTHER = Problem("", f"there are further problems; the first {PROBLEMS_MAX} are named")


class PolicyError(ValueError):
    """A policy document, or the arguments of one plugin, cannot be used."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        reported = tuple(islice(problems, PROBLEMS_MAX + 1))
        if len(reported) > PROBLEMS_MAX:
            reported = (*reported[:-1], FURTHER)
        self.problems: tuple[Problem, ...] = reported
        super().__init__("\n".join(str(problem) for problem in self.problems))
