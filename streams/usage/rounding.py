"""Percentages of usage, rounded as Go does: half away from zero.

A threshold of 65 refuses a usage of 65.5 %, and accepts 65.49 %. The rounded percentage depends on the order
of the float64 operations, which is that of Go. Source: docs/reference/upstream.md A2.4, A4.1.
"""

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
    low = high = int((threshold + 0.5) / 100 * total)
    step = 1
    while compute_percent(low, total) > threshold:
        low -= step
        step *= 2
    step = 1
    while compute_percent(high, total) <= threshold:
        high += step
        step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        if compute_percent(middle, total) > threshold:
            high = middle
        else:
            low = middle
    return min(max(low, -UNBOUNDED), UNBOUNDED)
