"""Percentages of usage, rounded as Go does: half away from zero.

A threshold of 65 refuses a usage of 65.5 %, and accepts 65.49 %. The rounded percentage depends on the order
of the float64 operations, which is that of Go. Source: docs/reference/upstream.md A2, A4.
"""

from bisect import bisect_right
from functools import lru_cache

#: A limit that no usage exceeds: the largest amount in a message.
UNBOUNDED = 2**63 - 1


def round_half_away(value: float) -> int:
    """Round to the nearest integer, halves away from zero, as Go's math.Round."""
    whole = int(value)
    fraction = value - whole
    if -0.5 < fraction < 0.5:
        return whole
    return whole + 1 if value > 0 else whole - 1


def compute_percent(used: int, total: int) -> int:
    """Return `used` as a rounded percentage of `total`, which must not be 0."""
    return round_half_away(float(used) / float(total) * 100)


@lru_cache(maxsize=65_536)
def find_largest_usage(total: int, threshold: int) -> int:
    """Return the largest `used` whose `compute_percent` does not exceed `threshold`.

    Decisions compare usage with the result instead of dividing. The result is from -`UNBOUNDED` to `UNBOUNDED`.

    Args:
        total: capacity, above 0.
        threshold: percent; annotations may have any 64-bit integer.
    """
    about = min(max(int((threshold + 0.5) / 100 * total), -UNBOUNDED), UNBOUNDED)
    # The relative error of the quotient, and that of `compute_percent`, are less than 2^-49.
    reach = abs(about) // 2**49 + 2
    nearby = range(about - reach, about + reach)
    allowed = bisect_right(nearby, threshold, key=lambda used: compute_percent(used, total))
    return min(max(about - reach + allowed - 1, -UNBOUNDED), UNBOUNDED)
