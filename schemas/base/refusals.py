"""Refusals: why a record is not applied.

Code that cannot use a record returns a `Refusal` instead of raising an exception. The worker sends
the record to `dead-letters` with the refusal and continues.
"""

from dataclasses import dataclass
from typing import Literal

#: Longest reason; longer reasons are cut.
REASON_CHARS_MAX = 2_000

Category = Literal[
    "unreadable", "invalid", "misplaced", "future", "late", "limit", "internal", "apart"
]


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a record was not read or not applied; categories as in `DeadLetter.category`."""

    category: Category
    reason: str
    """A sentence with the field, the value found and the values allowed."""


def check_not_future(
    sampled_at_ms: int, reference_ms: int, limit_ms: int, field: str = "sampled_at_ms"
) -> Refusal | None:
    """Return a refusal if a record's time is more than `limit_ms` after the newest time known to
    the reader. `field` is the name of the record's time."""
    ahead_ms = sampled_at_ms - reference_ms
    if ahead_ms <= limit_ms:
        return None
    return Refusal(
        "future",
        f"{field} is {sampled_at_ms}, {ahead_ms} ms after {reference_ms}, the newest time known here;"
        f" allowed are at most {limit_ms} ms: check the clock of the producer",
    )
