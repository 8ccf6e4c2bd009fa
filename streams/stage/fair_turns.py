"""Which come first where not all can have one: half of the turns in order, half from a place that
changes.

Those first in order may be asked in vain again and again, and must not keep the others from ever
being asked. Where the other half begins follows from a number that is another one each time, such
as the log's time; no state is kept.
"""

from collections.abc import Sequence
from zlib import crc32


def fair_order(sizes: Sequence[int], most: int, number: int) -> list[int]:
    """Positions in the order of their turns; as they are, if all have one.

    Args:
        sizes: how many turns each takes, in the order that counts.
        most: how many turns there are.
        number: another one each time.
    """
    places = list(range(len(sizes)))
    if sum(sizes) <= most:
        return places
    first = fitting(sizes, places, most // 2)
    rest = places[first:]
    begin = crc32(str(number).encode()) % len(rest)
    return places[:first] + rest[begin:] + rest[:begin]


def fitting(sizes: Sequence[int], places: Sequence[int], most: int) -> int:
    """How many of the places, from the first on, take at most `most` turns in all."""
    for count, place in enumerate(places):
        most -= sizes[place]
        if most < 0:
            return count
    return len(places)
