"""Whose turn it is among the nodes of a cluster, where each is to be worked on once.

What a policy changes of every pod would take too long at one record, since a cluster has up to a
million. So nodes take turns in the order of their names, a limited number of pods at each record of
a policy and at each tick. How far this has come is one name, which is kept in a row: a node is
before it or not, however the state was put together.
"""

from collections.abc import Iterable


class NodeTurns:
    """How far work on all nodes has come; there is none at first."""

    def __init__(self) -> None:
        self.next: str | None = None
        """The first node, by name, whose turn has not come; none: all had theirs."""
        self.changed = False
        """The row of this is to be written."""

    def begin(self) -> None:
        """Every node is to have its turn."""
        self.next, self.changed = "", True

    def end(self) -> None:
        """Nothing is left to do."""
        self.next, self.changed = None, self.changed or self.next is not None

    def had(self, node: str) -> bool:
        """A node's turn has come, or there is nothing to do."""
        return self.next is None or node < self.next

    def take(self, nodes: Iterable[tuple[str, int]], most: int) -> list[str]:
        """Nodes whose turn it is now, in the order of their names.

        Args:
            nodes: names and numbers of pods, in any order.
            most: pods that are worked on at most, but for the last node's; a node counts as one
                more.
        """
        if self.next is None:
            return []
        self.changed = True
        turn: list[str] = []
        for name, pods in sorted(each for each in nodes if each[0] >= self.next):
            if most <= 0:
                self.next = name
                return turn
            most -= pods + 1
            turn.append(name)
        self.next = None
        return turn

    def restore(self, next_node: str | None) -> None:
        """Take over what a row says."""
        self.next, self.changed = next_node, False
