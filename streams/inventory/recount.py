"""By which estimates the pods of each node are counted while a policy that estimates otherwise
takes its turn.

A policy that changes how pods are estimated changes a figure of every pod, and a cluster has up to
a million. So its filters and scores judge by it at once, while pods are counted anew node by node,
in the order of names, a limited number at each record of a policy and at each tick. Until a node's
turn comes its pods count as before; a resource that they were not estimated in adds nothing beyond
what is measured. A policy that comes meanwhile waits until all are counted by the one before.

How far this has come is part of the cluster's policy row, so a state that is put together from its
rows goes on.
"""

from collections.abc import Iterable

from schemas.rows import Recount
from streams.inventory.estimate import Estimator

#: Pods that are counted anew at one record, in a twentieth of a second; a node counts as one more.
RECOUNTED_PER_RECORD_MAX = 4_000


class Recounting:
    """How far counting anew has come; names of nodes are those of one cluster."""

    def __init__(self, estimator: Estimator) -> None:
        """All pods are counted by one policy."""
        self._before = self._to = self._wanted = estimator
        self._next: str | None = None
        """The first node that is still counted as before; none: all are counted by `_to`."""
        self.changed = False
        """The row of this is to be written."""

    def want(self, estimator: Estimator) -> None:
        """Count by another policy from now on, node by node."""
        self._wanted = estimator
        if self._to.counts_like(estimator):
            # One estimator for both ways to ask, so that nobody need compare them.
            self._to = estimator
            if self._next is None:
                self._before = estimator
        elif self._next is None:
            self._begin()

    def _begin(self) -> None:
        self._before, self._to, self._next = self._to, self._wanted, ""
        self.changed = True

    @property
    def under_way(self) -> bool:
        """Some nodes are counted as before."""
        return self._next is not None

    def counting(self, node: str) -> Estimator:
        """By what the pods of a node are counted."""
        return self._to if self._next is None or node < self._next else self._before

    def turn(self, nodes: Iterable[tuple[str, int]]) -> list[str]:
        """Nodes whose turn has come; from now on they are counted by another policy.

        Args:
            nodes: names and numbers of pods, in any order.
        """
        if self._next is None:
            return []
        waiting = sorted(each for each in nodes if each[0] >= self._next)
        left, turn = RECOUNTED_PER_RECORD_MAX, []
        for name, pods in waiting:
            if left <= 0:
                self._next = name
                break
            left -= pods + 1
            turn.append(name)
        else:
            self._next = None
            if self._to is not self._wanted:
                self._begin()
            else:
                self._before = self._to
        self.changed = True
        return turn

    # --- rows -------------------------------------------------------------------------------------

    def row(self) -> Recount | None:
        """How far it has come; none: all are counted by the policy in force."""
        if self._next is None:
            return None
        to = None if self._to is self._wanted else self._to.counting()
        return Recount(before=self._before.counting(), to=to, next_node=self._next)

    def restore(self, row: Recount | None) -> None:
        """Take over a row; the policy in force is known, and no node is."""
        self._before = self._to = self._wanted
        self._next = None
        if row is not None:
            self._before = Estimator.of(row.before)
            self._to = self._wanted if row.to is None else Estimator.of(row.to)
            self._next = row.next_node
        self.changed = False
