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
    stretch = first(minutes, usage)
    return stretch if before is None else joined(before, stretch)


def joined(before: Life, stretch: Life) -> Life:
    """A life, and a stretch of time after it that has a mean and a deviation of its own."""
    minutes = stretch[0]
    old = max(0, min(before[0], MINUTES_MAX - minutes))
    total = old + minutes
    life = [total]
    for index in range(1, len(stretch), 2):
        mean, deviation = before[index], before[index + 1]
        apart, own = stretch[index] - mean, stretch[index + 1]
        squares = deviation * deviation * old + own * own * minutes
        squares += apart * apart * old * minutes // total
        life += (mean + apart * minutes // total, isqrt(squares // total))
    return tuple(life)
