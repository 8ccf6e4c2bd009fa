"""How much one tick may do for pods that wait, so that no number of them stalls the cluster's other
inputs.

It counts questions and answers, never the time that they took: a worker whose caches are cold does
the same as one that has run for days. What is left over waits for the next tick.
"""

from streams.pods.kind import Kind

#: Units of work that one tick may spend on pods that wait; one is at most a fifth of a millisecond.
EFFORT_PER_TICK_MAX = 750
#: Units of a look at a kind of pods after another kind: all nodes may have to be looked at.
EFFORT_PER_KIND = 3
#: Units of a decision, and of one more look at the same kind.
EFFORT_PER_DECISION = 1


class Effort:
    """What is left of the work that one tick may do.

    Counted is what is asked, never what it took: a worker whose caches are cold does the same as
    another.
    """

    def __init__(self, part: float = 1.0) -> None:
        """`part`: of what a tick may do; the rest is for what else it has to do."""
        self.left = self._all = int(EFFORT_PER_TICK_MAX * part)
        self._last: bytes | None = None

    def more_than(self, share: float) -> bool:
        """More than a share of the whole is left: the rest is kept for what comes after."""
        return self.left > self._all * share

    def look(self, kind: Kind) -> None:
        """All nodes are asked about a kind."""
        self.left -= EFFORT_PER_DECISION if kind.key == self._last else EFFORT_PER_KIND
        self._last = kind.key

    def decide(self, decisions: int = 1) -> None:
        """Decisions were made without another look."""
        self.left -= decisions * EFFORT_PER_DECISION
