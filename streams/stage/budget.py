"""How much one record, tick or round may do, so that no list stalls a cluster's other inputs.

A budget counts units of work and never the time that they took: a worker whose caches are cold
decides the same as one that has run for days. What is left over waits for the next tick or round.

Where a budget is too small for a list, half of it goes to the first items and half to items from a
place that moves. The first items may be tried in vain again and again, and must not keep the others
from ever being tried. The place follows from a number that differs each time, such as the log's
time, so no state is kept.
"""

from collections.abc import Iterable, Sequence
from typing import TypeVar
from zlib import crc32

T = TypeVar("T")


class Budget:
    """Units of work that are left."""

    def __init__(self, units: int, seed: int = 0) -> None:
        """`seed`: a number that differs each time, such as the log's time."""
        self.left = self.units = units
        self._seed = seed

    @property
    def is_spent(self) -> bool:
        return self.left <= 0

    def has_more_than(self, share: float) -> bool:
        """Whether more than a share of all units is left: the share is kept for what comes later."""
        return self.left > self.units * share

    def spend(self, units: int = 1) -> None:
        self.left -= units

    def choose(self, sizes: Sequence[int], excess: int = 1) -> list[int]:
        """Return the positions of the items to work on, in their order; at least one.

        Spends nothing.

        Args:
            sizes: units that each item takes at most, the first item first.
            excess: choose items for so many times the units that are left, for items that may take
                less than their size.
        """
        places = list(range(len(sizes)))
        if sum(sizes) > self.left:
            first = _count_fitting(sizes, places, self.left // 2)
            places = places[:first] + rotate(places[first:], self._seed)
        return places[: max(1, _count_fitting(sizes, places, excess * self.left))]


def rotate(items: list[T], seed: int) -> list[T]:
    """Return the items from a place on that follows from the seed, then those before it."""
    begin = crc32(str(seed).encode()) % max(1, len(items))
    return items[begin:] + items[:begin]


def _count_fitting(sizes: Sequence[int], places: Iterable[int], most: int) -> int:
    """Return how many of the places, from the first on, take at most `most` units in all."""
    count = 0
    for place in places:
        most -= sizes[place]
        if most < 0:
            break
        count += 1
    return count
