"""Limits of the work of one record, tick or round, so that long lists do not delay other inputs.

A budget counts units of work, not time, so that decisions do not depend on the speed of the worker.
Work that exceeds the budget waits for the next tick or round.

If a budget is too small for a list, half of the budget is for the first items, and half for items from a
position that changes each time. So items at the end are reached even if the first items never succeed.
The position is derived from a seed such as log time, so the position needs no state.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar
from zlib import crc32

T = TypeVar("T")


class Budget:
    """Units of work that are left."""

    def __init__(self, units: int, seed: int = 0) -> None:
        """`seed` is a number that differs each time, such as log time."""
        self.left = self.units = units
        self._seed = seed

    @property
    def is_spent(self) -> bool:
        return self.left <= 0

    def has_more_than(self, share: float) -> bool:
        """Tell whether more than a share of all units is left; callers reserve the share for later work."""
        return self.left > self.units * share

    def spend(self, units: int = 1) -> None:
        self.left -= units

    def choose(self, sizes: Sequence[int], overcommit: int = 1) -> list[int]:
        """Return the positions of the items to work on, in order, at least one; spend nothing.

        The sizes are the most units that items take. They may add up to `overcommit` times the units left, for
        items that often take less.
        """
        positions = list(range(len(sizes)))
        if sum(sizes) > self.left:
            count = _count_fitting(sizes, positions, self.left // 2)
            positions = positions[:count] + rotate(positions[count:], self._seed)
        return positions[: max(1, _count_fitting(sizes, positions, overcommit * self.left))]


def rotate(items: list[T], seed: int) -> list[T]:
    """Rotate a list to a position that is derived from the seed."""
    start = crc32(str(seed).encode()) % max(1, len(items))
    return items[start:] + items[:start]


def _count_fitting(sizes: Sequence[int], positions: Iterable[int], units: int) -> int:
    count = 0
    for position in positions:
        units -= sizes[position]
        if units < 0:
            break
        count += 1
    return count
