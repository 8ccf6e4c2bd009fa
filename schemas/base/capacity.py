"""What a node has to give: what its usage is a share of, and cannot exceed.

Where nodes are overcommitted, `allocatable` is what pods may request, and an annotation of
Koordinator says what the node really has.

Source: docs/reference/upstream.md A5.4, A6.10.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from schemas.base.quantities import QuantityError, amount

#: Percent of the capacity up to which a measured amount is believed: two readings of a counter are not
#: of exactly the times that they carry.
BELIEVED_PERCENT = 105

RAW_ALLOCATABLE_ANNOTATION = "node.koordinator.sh/raw-allocatable"


def find_impossible(usage: Mapping[str, int], capacity: Mapping[str, int]) -> str | None:
    """Say which amount a node of this capacity cannot have used; capacity 0 is unknown."""
    for resource, most in capacity.items():
        used = usage.get(resource, 0)
        if used * 100 > most * BELIEVED_PERCENT and most > 0:
            return (
                f"{resource}: {used} was measured and the node has {most}; believed is at most "
                f"{BELIEVED_PERCENT} % of that"
            )
    return None


def node_capacity(
    allocatable: Mapping[str, int], annotations: Mapping[str, str]
) -> Mapping[str, int]:
    """Allocatable amounts with the raw-allocatable annotation merged over them, by resource."""
    return {**allocatable, **(raw_allocatable(annotations) or {})}


def raw_allocatable(annotations: Mapping[str, str]) -> dict[str, int] | None:
    """Amounts of the raw-allocatable annotation; None: there is none, or one value is unreadable."""
    text = annotations.get(RAW_ALLOCATABLE_ANNOTATION)
    if text is None:
        return None
    try:
        # Pairs, since Go reads each value of a name that is given twice, and keeps the last.
        listed = json.loads(
            text,
            object_pairs_hook=tuple,
            parse_float=_Number,
            parse_int=_Number,
            parse_constant=_Number,
        )
        if not isinstance(listed, tuple):
            return None
        return {name: _quantity(name, value) for name, value in listed}
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
    return amount(resource, re.sub(r"^\s+|\s+$", "", value))
