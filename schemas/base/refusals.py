"""Refusals: why a record is not applied, as a value and not as an exception.

Code that finds a record unusable returns a `Refusal`; the agent sends the record with it to
`dead-letters` and goes on. Clocks are arguments here, as everywhere below the agents.
"""

from dataclasses import dataclass
from typing import Literal

#: Longest reason; a longer one is cut.
REASON_CHARS_MAX = 2_000

Category = Literal[
    "unreadable", "invalid", "misplaced", "future", "late", "limit", "internal", "apart"
]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a record was not read or not applied; categories as in `DeadLetter.category`."""

    category: Category
    reason: str
    """A sentence: field, what was found, what is allowed."""


def from_the_future(
    sampled_at_ms: int, reference_ms: int, limit_ms: int, field: str = "sampled_at_ms"
) -> Refusal | None:
    """A refusal if a record's time is more than `limit_ms` after the newest time known to the
    reader.

    `field` names the time where it is another one than that of a sample.
    """
    ahead_ms = sampled_at_ms - reference_ms
    if ahead_ms <= limit_ms:
        return None
    return Refusal(
        "future",
        f"{field} is {sampled_at_ms}, {ahead_ms} ms after {reference_ms}, the newest time known here;"
        f" allowed are at most {limit_ms} ms: check the clock of the producer",
    )
