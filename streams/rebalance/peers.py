"""Nodes that are as hot as the one that a pod leaves: what its move is judged against.

As hot is what stands as near to its limits, above or below them: nodes that are read alike are expected to go on
alike. Those read as hot by chance cool by chance, whichever of them a pod leaves.
"""

from collections.abc import Container, Sequence

import numpy as np

from schemas.moves import PEERS_MAX
from streams.inventory.arrays import FloatArray

#: Nodes are as hot as each other whose distances from their limits differ by at most this share of
#: their capacity.
AS_HOT_MAX = 0.05


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

    def nearest(self, name: str, left: Container[str]) -> tuple[str, ...]:
        """Nodes as hot as one, the nearest first, then by name; at most `PEERS_MAX`.

        Args:
            name: of the node that a pod leaves; it is among the measured ones.
            left: names of nodes that are no peers.
        """
        own = self._excess[self._names.index(name)]
        with np.errstate(invalid="ignore"):
            away = np.abs(self._excess - own)
        alike = np.flatnonzero(away <= AS_HOT_MAX)
        found: list[str] = []
        for position in alike[np.argsort(away[alike], kind="stable")].tolist():
            if len(found) == PEERS_MAX:
                break
            peer = self._names[position]
            if peer != name and peer not in left:
                found.append(peer)
        return tuple(found)
