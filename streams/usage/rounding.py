"""Go's arithmetic: rounding half away from zero, and percentages in Go's order of operations.

A usage of 65.5 % is refused at a threshold of 65, and 65.49 % is not. The rounded percentage depends on
float64 operations in exactly this order. Source: docs/reference/upstream.md A2.4, A4.1.
"""

from functools import lru_cache

#: The largest amount in a message, as a limit that no usage exceeds.
UNBOUNDED = 2**63 - 1


def round_half_away(value: float) -> int:
    """Round to the nearest integer, halves away from zero, as Go's math.Round."""
    whole = int(value)
    fraction = value - whole
    if -0.5 < fraction < 0.5:
        return whole
    return whole + 1 if value > 0 else whole - 1


def usage_percent(used: int, total: int) -> int:
    """Return `used` as a rounded percentage of `total`, which must not be 0."""
    return round_half_away(float(used) / float(total) * 100)


@lru_cache(maxsize=65_536)
def largest_within(total: int, threshold: int) -> int:
    """Return the largest `used` whose `usage_percent` of `total` does not exceed `threshold`.

    A comparison with it replaces the division in every decision. The result is within -`UNBOUNDED` and
    `UNBOUNDED`.

    Args:
        total: capacity, above 0.
        threshold: percent; annotations may have any 64-bit integer.
    """
    low = high = int((threshold + 0.5) / 100 * total)
    step = 1
    while usage_percent(low, total) > threshold:
        low -= step
        step *= 2
    step = 1
    while usage_percent(high, total) <= threshold:
        high += step
        step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        if usage_percent(middle, total) > threshold:
            high = middle
        else:
            low = middle
    return min(max(low, -UNBOUNDED), UNBOUNDED)
