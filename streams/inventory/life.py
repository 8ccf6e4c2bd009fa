"""What one pod used over its life: for how many minutes, the mean and the deviation.

A life is a tuple of integers: minutes, and of each resource mean and standard deviation in
thousandths of its unit. A further stretch of time is added by the rule for two samples put together
(Chan, Golub, LeVeque 1979), in integers, so it comes out the same everywhere. After a week the
oldest usage begins to be forgotten: what is added weighs as if the life were never longer.
"""

from collections.abc import Sequence
from math import isqrt

#: Minutes; per resource mean and standard deviation in thousandths. Shape (1 + 2 resources,).
Life = tuple[int, ...]

#: A life is never longer than a week.
MINUTES_MAX = 10_080
#: Parts of a unit in which means and deviations are kept.
PARTS = 1_000


def first(minutes: int, usage: Sequence[int]) -> Life:
    """A life of which only the mean is known; `usage` in units."""
    life = [minutes]
    for used in usage:
        life += (used * PARTS, 0)
    return tuple(life)


def lived(before: Life | None, minutes: int, usage: Sequence[int]) -> Life:
    """A life, and a stretch of time after it.

    Args:
        before: the life until then; None: it begins now.
        minutes: length of the stretch, at least 1.
        usage: mean usage in it of each resource, in units.
    """
    if before is None:
        return first(minutes, usage)
    old = min(before[0], MINUTES_MAX - minutes)
    total = old + minutes
    life = [total]
    for index, used in enumerate(usage):
        mean, deviation = before[1 + 2 * index], before[2 + 2 * index]
        apart = used * PARTS - mean
        squares = deviation * deviation * old + apart * apart * old * minutes // total
        life += (mean + apart * minutes // total, isqrt(squares // total))
    return tuple(life)
