"""Nodes that are as hot as the one that a pod leaves: what its move is judged against.

As hot is what stands as near to its limits, above or below them: nodes that are read alike are expected to go on
alike. Those read as hot by chance cool by chance, whichever of them a pod leaves.
"""

from bisect import bisect_left
from collections.abc import Sequence, Set
from itertools import islice
from math import isfinite

import numpy as np

from schemas.moves import PEERS_MAX
from streams.inventory.arrays import FloatArray

#: Nodes are as hot as each other whose distances from their limits differ by at most this share of
#: their capacity.
AS_HOT_MAX = 0.05
#: Distances are asked of nodes within a little more than that, since sums of fractions are rounded.
_LOOKED_AT = AS_HOT_MAX * 1.001


class Standings:
    """How far the nodes of one pool are above their limits, or below."""

    def __init__(self, names: Sequence[str], excess: FloatArray) -> None:
        """Take figures of one round.

        Args:
            names: of the measured nodes, in ascending order.
            excess: usage less limit as a share of the capacity, of the resource furthest above its
                limit or nearest below it, shape (nodes,); -inf: the node has no limit.
        """
        self._names, self._excess = names, excess
        self._order = np.argsort(excess, kind="stable")
        self._ordered = excess[self._order]
        self._alike: dict[str, list[int]] = {}
        self._found: dict[str, tuple[str, ...]] = {}

    def nearest(self, name: str, left: Set[str]) -> tuple[str, ...]:
        """Nodes as hot as one, the nearest first, then by name; at most `PEERS_MAX`.

        Args:
            name: of the node that a pod leaves; it is among the measured ones.
            left: names of nodes that are no peers; from call to call names are only added.
        """
        found = self._found.get(name)
        if found is None or not left.isdisjoint(found):
            # As a rule several pods leave a node.
            alike = self._alike.get(name)
            if alike is None:
                alike = self._alike[name] = self._as_hot(name)
            others = (self._names[position] for position in alike)
            found = tuple(islice((each for each in others if each not in left), PEERS_MAX))
            self._found[name] = found
        return found

    def _as_hot(self, name: str) -> list[int]:
        """Positions of all other nodes as hot as one, the nearest first, then by name."""
        own_position = bisect_left(self._names, name)
        own = float(self._excess[own_position])
        if not isfinite(own):
            return []
        first, end = np.searchsorted(self._ordered, (own - _LOOKED_AT, own + _LOOKED_AT))
        near = np.sort(self._order[first:end])
        away = np.abs(self._excess[near] - own)
        nearest = near[np.argsort(away, kind="stable")]
        alike: list[int] = nearest[: int(np.count_nonzero(away <= AS_HOT_MAX))].tolist()
        alike.remove(own_position)
        return alike
