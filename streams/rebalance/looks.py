"""How many pods one round looks at, and whose turn it is where these are not all.

A pod that is looked at costs a target and every gate that may keep it, so a round over hundreds of hot nodes whose
pods may not leave would look at thousands in vain, round after round. Half of what a round may look at are the pods of
the nodes that are used most; the other half begins further down at each round, so that every node has its turn. It
follows from the round's time alone.
"""

from collections.abc import Sequence

#: Most pods that one round looks at: a tenth of a second.
LOOKS_PER_ROUND_MAX = 2_000
#: Most pods that one phase of a pool puts into order. Most nodes need only some of their pods to be looked at.
ORDERED_MAX = 10_000


class Looks:
    """What is left of the looks of one round."""

    def __init__(self, number: int = 0) -> None:
        """`number`: rounds have consecutive ones."""
        self.left = self._all = LOOKS_PER_ROUND_MAX
        self._number = number

    def take(self, pods: int = 1) -> None:
        """Pods are looked at."""
        self.left -= pods

    def order(self, sizes: Sequence[int]) -> list[int]:
        """Positions of the nodes whose pods may be looked at, in the order of their turns.

        Args:
            sizes: pods of each node, those of the node that is used most first.
        """
        places = list(range(len(sizes)))
        if sum(sizes) <= self.left:
            return places
        first = _fitting(sizes, places, self.left // 2)
        rest = places[first:]
        step = max(1, _fitting(sizes, rest, self.left - self.left // 2))
        begin = self._number * step % len(rest) if rest else 0
        chosen = places[:first] + rest[begin:] + rest[:begin]
        return chosen[: max(1, _fitting(sizes, chosen, ORDERED_MAX))]

    @property
    def over(self) -> str:
        """Why no further pod is looked at; empty: pods still are."""
        if self.left > 0:
            return ""
        return f"{self._all} pods were looked at; no round looks at more, and others have their turn in the next"


def _fitting(sizes: Sequence[int], places: Sequence[int], most: int) -> int:
    """How many of the places have at most so many pods in all."""
    for count, place in enumerate(places):
        most -= sizes[place]
        if most < 0:
            return count
    return len(places)
