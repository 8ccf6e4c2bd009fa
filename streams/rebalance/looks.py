"""How many pods one round looks at, and whose turn it is where these are not all.

A pod that is looked at costs a target and every gate that may keep it, so a round over hundreds of
hot nodes whose pods may not leave would look at thousands without effect, round after round. Half
of what a round may look at are the pods of the nodes that are used most; the other half begins
elsewhere at each round, so that every node has its turn (`streams.stage.fair_turns`).
"""

from collections.abc import Sequence

from streams.stage.fair_turns import fair_order, fitting

#: Most pods that one round looks at: some 80 ms.
LOOKS_PER_ROUND_MAX = 1_500
#: Most pods that one phase of a pool puts into order. Most nodes need only some of their pods to be
#: looked at.
ORDERED_MAX = 7_500

#: Why no pod of a node was looked at that has its turn in another round.
LATER = "more hot nodes than one round looks at; this one has its turn in a later round"


class Looks:
    """What is left of the looks of one round."""

    def __init__(self, number: int = 0) -> None:
        """`number`: another one at each round."""
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
        order = fair_order(sizes, self.left, self._number)
        return order[: max(1, fitting(sizes, order, ORDERED_MAX))]

    @property
    def over(self) -> str:
        """Why no further pod is looked at; empty: pods still are."""
        if self.left > 0:
            return ""
        return f"{self._all} pods were looked at; no round looks at more, and others have their turn in the next"
