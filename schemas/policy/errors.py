"""Problems of a policy document, reported all at once with path and line.

    PolicyError
      └─ problems: Problem, Problem, ...   in the order of the document

A problem has the path as the author wrote it (`loadAware.usageThresholds.cpu`), the line, the value
found and the values allowed. Reading a document raises no other error than `PolicyError`.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from pydantic_core import PydanticCustomError

#: Steps from the root of a document to a value: field names, map keys and list indexes.
Path = tuple[str | int, ...]
#: Path of a value, and a sentence about its problem.
Finding = tuple[Path, str]

#: Problems reported per document.
PROBLEMS_MAX = 200

_PLAIN = re.compile(r"^[A-Za-z_][A-Za-z0-9_-]*$")


def format_path(path: Path) -> str:
    """Return the path as text: `rebalance.nodePools[0].highThresholds["example.com/gpu"]`."""
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
    path: str
    """Path of the value; empty: the whole text."""
    message: str
    """A sentence with the value found and the values allowed."""
    line: int | None = None
    """Line of the text, from 1; None: the value does not come from a text."""

    def __str__(self) -> str:
        position = ": ".join(
            part for part in (f"line {self.line}" if self.line else "", self.path) if part
        )
        return f"{position}: {self.message}" if position else self.message


#: The last problem if there are more than `PROBLEMS_MAX`.
FURTHER = Problem("", f"there are more problems; only the first {PROBLEMS_MAX} are shown")


def not_allowed(allowed: str) -> PydanticCustomError:
    """Return the error for validators of fields; `allowed` describes the allowed values."""
    return PydanticCustomError("allowed", "{allowed}", {"allowed": allowed})


class PolicyError(ValueError):
    """A policy document, or the arguments of one plugin, are invalid."""

    def __init__(self, problems: Iterable[Problem]) -> None:
        reported = tuple(islice(problems, PROBLEMS_MAX + 1))
        if len(reported) > PROBLEMS_MAX:
            reported = (*reported[:-1], FURTHER)
        self.problems: tuple[Problem, ...] = reported
        super().__init__("\n".join(str(problem) for problem in self.problems))
