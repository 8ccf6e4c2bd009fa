"""By which estimates the pods of each node are counted while a policy that estimates otherwise
takes its turn.

A policy that changes how pods are estimated changes a figure of every pod. So its filters and
scores judge by it at once, while pods are counted anew node by node (`node_turns`). Until a node's
turn comes its pods count as before; a resource that they were not estimated in adds nothing beyond
what is measured. A policy that comes meanwhile waits until all are counted by the one before.

How far this has come is part of the cluster's policy row, so a state that is put together from its
rows goes on.
"""

from collections.abc import Iterable

from schemas.rows import Recount
from streams.inventory.estimate import Estimator
from streams.inventory.node_turns import NodeTurns

#: Pods that are counted anew at one record, in a twentieth of a second.
RECOUNTED_PER_RECORD_MAX = 4_000


class Recounting:
    """How far counting anew has come; names of nodes are those of one cluster."""

    def __init__(self, estimator: Estimator) -> None:
        """All pods are counted by one policy."""
        self._before = self._to = self._wanted = estimator
        self.turns = NodeTurns()
        """Nodes before the next one are counted by `_to`."""

    def want(self, estimator: Estimator) -> None:
        """Count by another policy from now on, node by node."""
        self._wanted = estimator
        if self._to.counts_like(estimator):
            # One estimator for both ways to ask, so that they need not be compared.
            self._to = estimator
            if not self.under_way:
                self._before = estimator
        elif not self.under_way:
            self._begin()

    def _begin(self) -> None:
        self._before, self._to = self._to, self._wanted
        self.turns.begin()

    @property
    def under_way(self) -> bool:
        """Some nodes are counted as before."""
        return self.turns.next is not None

    def counting(self, node: str) -> Estimator:
        """By what the pods of a node are counted."""
        return self._to if self.turns.had(node) else self._before

    def turn(self, nodes: Iterable[tuple[str, int]]) -> list[str]:
        """Nodes whose turn has come; from now on they are counted by another policy.

        Args:
            nodes: names and numbers of pods, in any order.
        """
        if not self.under_way:
            return []
        turn = self.turns.take(nodes, RECOUNTED_PER_RECORD_MAX)
        if not self.under_way:
            if self._to is not self._wanted:
                self._begin()
            else:
                self._before = self._to
        return turn

    # --- rows -------------------------------------------------------------------------------------

    def row(self) -> Recount | None:
        """How far it has come; none: all are counted by the policy in force."""
        if self.turns.next is None:
            return None
        to = None if self._to is self._wanted else self._to.counting()
        return Recount(before=self._before.counting(), to=to, next_node=self.turns.next)

    def restore(self, row: Recount | None) -> None:
        """Take over a row; the policy in force is known, and no node is."""
        self._before = self._to = self._wanted
        if row is not None:
            self._before = Estimator.of(row.before, self._wanted.learned)
            if row.to is not None:
                self._to = Estimator.of(row.to, self._wanted.learned)
        self.turns.restore(None if row is None else row.next_node)
