"""The capacity of a node, and measured usage that is impossible.

On overcommitted nodes, `allocatable` limits the requests of pods. An annotation of Koordinator then has
the real capacity.

Source: docs/reference/upstream.md A5, A6.
"""

import json
from collections.abc import Mapping

from schemas.base.quantities import parse_amount

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
        # Numbers stay as they are written, because Kubernetes reads them as quantities.
        pairs = json.loads(
            text, object_pairs_hook=tuple, parse_float=str, parse_int=str, parse_constant=str
        )
        if not isinstance(pairs, tuple):
            return None
        # Go validates every value of a repeated name and keeps the last.
        return {
            name: 0 if value is None else parse_amount(name, value.strip()) for name, value in pairs
        }
    except (ValueError, RecursionError, AttributeError):
        return None
