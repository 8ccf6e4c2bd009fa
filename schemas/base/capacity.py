"""The capacity of a node, and measured usage that is impossible.

On overcommitted nodes, `allocatable` limits the requests of pods. An annotation of Koordinator then has
the real capacity.

Source: docs/reference/upstream.md A5.4, A6.10.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from schemas.base.quantities import QuantityError, parse_amount

#: Measured usage may exceed the capacity by this much, because the timestamps of two counter readings
#: are not exact.
PLAUSIBLE_PERCENT_MAX = 105
#: Why a node's sample without memory usage is impossible.
ZERO_POINT = "memory: measured 0, but every node uses memory"

RAW_ALLOCATABLE_ANNOTATION = "node.koordinator.sh/raw-allocatable"


def find_impossible(usage: Mapping[str, int], capacity: Mapping[str, int]) -> str | None:
    """Describe the first resource whose measured usage is impossible for this capacity; None: all
    usage is possible. A capacity of 0 is unknown."""
    for resource, amount in capacity.items():
        used = usage.get(resource, 0)
        if used * 100 > amount * PLAUSIBLE_PERCENT_MAX and amount > 0:
            return (
                f"{resource}: measured {used}, but the node has {amount}; expected at most "
                f"{PLAUSIBLE_PERCENT_MAX} % of that"
            )
    return None


def is_zero_point(usage: Mapping[str, int]) -> bool:
    """Tell whether a node or pod uses no memory by its sample, for example during its start or end."""
    return usage.get("memory") == 0


def merge_raw_allocatable(
    allocatable: Mapping[str, int], annotations: Mapping[str, str]
) -> Mapping[str, int]:
    """Return the allocatable amounts by resource, with the raw-allocatable annotation applied."""
    return {**allocatable, **(parse_raw_allocatable(annotations) or {})}


def parse_raw_allocatable(annotations: Mapping[str, str]) -> dict[str, int] | None:
    """Return the amounts of the raw-allocatable annotation; None if it is missing or a value is
    unreadable."""
    text = annotations.get(RAW_ALLOCATABLE_ANNOTATION)
    if text is None:
        return None
    try:
        # A tuple of pairs: Go validates every value of a repeated name and keeps the last.
        pairs = json.loads(
            text,
            object_pairs_hook=tuple,
            parse_float=_Number,
            parse_int=_Number,
            parse_constant=_Number,
        )
        if not isinstance(pairs, tuple):
            return None
        return {name: _quantity(name, value) for name, value in pairs}
    except (ValueError, RecursionError, QuantityError):
        return None


class _Number(str):
    """A JSON number as it was written; Kubernetes reads it as a quantity."""

    __slots__ = ()


def _quantity(resource: str, value: Any) -> int:
    if value is None:
        return 0
    if not isinstance(value, str):
        raise ValueError(f"{resource}: not a quantity")  # noqa: TRY004 - one error for all bad JSON
    return parse_amount(resource, re.sub(r"^\s+|\s+$", "", value))
