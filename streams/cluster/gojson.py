"""JSON as Go decodes it into typed values, for annotations that Koordinator reads that way."""

from typing import Any

from schemas.base import INT64_MAX


def as_integers(value: Any) -> dict[str, int] | None:
    """A decoded JSON object of int64, where null is 0; None if it is anything else."""
    if value is None:
        return {}
    if not isinstance(value, dict):
        return None
    integers: dict[str, int] = {}
    for key, item in value.items():
        number = 0 if item is None else item
        if type(number) is not int or not -INT64_MAX - 1 <= number <= INT64_MAX:
            return None
        integers[key] = number
    return integers
