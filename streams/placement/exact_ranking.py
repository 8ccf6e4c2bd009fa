"""The ranking of a policy whose only score is exact: nodes are chosen by its merits.

Whole numbers from 0 to 100 must be made again for all nodes whenever the best node changes, which
happens with each placement. A single score needs no common measure with other scores. So merits
decide, and raw scores are computed and stretched only for nodes that a decision names. The best
node is the same in both ways, since it alone gets 100. Among the next best, merits distinguish
nodes that would be equal in whole numbers.
"""

from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.placement.normalize import stretch
from streams.placement.plugin import ExactScore
from streams.placement.ranking import REFUSED, Ranking, Term
from streams.stage.arrays import FloatArray


class ExactRanking(Ranking):
    """Totals are merits; below all of them where a filter refuses."""

    _refused = -inf
    _low: float | None
    """Lowest total of the nodes that pass; none: it is not known."""

    def _score(self) -> tuple[ExactScore, Any, int]:
        ((plugin, prepared, weight),) = self._scores
        assert isinstance(plugin, ExactScore)  # noqa: S101 - else the ranking is another one
        return plugin, prepared, weight

    def _total(self, passes: NDArray[np.bool_] | None, left: int) -> NDArray[Any]:
        plugin, prepared, _ = self._score()
        self._fixed = None
        self._low = None
        merits = plugin.merits(prepared)
        if passes is not None and left < merits.size:
            np.putmask(merits, ~passes, self._refused)
        return merits

    def _rescore(self, row: int, *, refused: bool) -> bool:
        plugin, prepared, _ = self._score()
        was = self._totals[row]
        now = self._refused if refused else plugin.merit(prepared, row)
        self._totals[row] = now
        if self._low is not None and (was == self._low or (not refused and now < self._low)):
            self._low = None
        return False

    def total(self, row: int) -> int:
        """Weighted score of a node as a whole number; `REFUSED` where refused."""
        if not self.passes(row):
            return REFUSED
        return sum(term.score * term.weight for term in self.terms(row))

    def terms(self, row: int) -> tuple[Term, ...]:
        """What the score gave one node."""
        plugin, prepared, weight = self._score()
        best = self.best()
        if best is None:
            return (Term(plugin.name, 0, weight),)
        merit = self._totals[row] if self.passes(row) else plugin.merit(prepared, row)
        shown, low, high = map(plugin.raw_of, (merit, self._lowest(), self._totals[best]))
        return (Term(plugin.name, stretch(shown, low, high), weight),)

    def _lowest(self) -> float:
        if self._low is None:
            passing: FloatArray = self.totals[self.totals != self._refused]
            self._low = float(passing.min())
        return self._low
