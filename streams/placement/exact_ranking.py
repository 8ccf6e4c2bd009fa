"""The ranking of a policy whose only score is exact: nodes are chosen by raw scores.

Whole numbers from 0 to 100 are made anew for all nodes whenever the best one changes, which it does
with each placement. Alone, a score needs no common measure with others: raw scores decide, and only
nodes that a decision names are stretched. The best node is the same either way, since it alone
comes to 100; among the next best, raw scores tell apart what whole numbers would put level.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.inventory.arrays import FloatArray
from streams.placement.normalize import stretch
from streams.placement.ranking import REFUSED, Ranking, Term


class ExactRanking(Ranking):
    """Totals are raw scores, which are not negative; `REFUSED` where a filter refuses."""

    _low: float | None
    """Lowest total of the nodes that pass; none: it is not known."""

    def _total(self, passes: NDArray[np.bool_] | None, left: int) -> NDArray[Any]:
        ((plugin, prepared, _),) = self._scores
        self._fixed = None
        self._low = None
        raw = plugin.scores(prepared)
        if passes is not None and left < raw.size:
            np.putmask(raw, ~passes, REFUSED)
        return raw

    def _rescore(self, row: int, *, refused: bool) -> bool:
        ((plugin, prepared, _),) = self._scores
        was = self._totals[row]
        now = float(REFUSED) if refused else plugin.score(prepared, row)
        self._totals[row] = now
        if self._low is not None and (was == self._low or (not refused and now < self._low)):
            self._low = None
        return False

    def total(self, row: int) -> int:
        """Weighted score of a node as a whole number; `REFUSED` where refused."""
        if self._totals[row] == REFUSED:
            return REFUSED
        return sum(term.score * term.weight for term in self.terms(row))

    def terms(self, row: int) -> tuple[Term, ...]:
        """What the score gave one node."""
        ((plugin, prepared, weight),) = self._scores
        best = self.best()
        if best is None:
            return (Term(plugin.name, 0, weight),)
        low, high = self._lowest(), self._totals[best]
        raw = self._totals[row]
        shown = raw if raw != REFUSED else plugin.score(prepared, row)
        return (Term(plugin.name, stretch(shown, low, high), weight),)

    def _lowest(self) -> float:
        if self._low is None:
            passing: FloatArray = self.totals[self.totals != REFUSED]
            self._low = float(passing.min())
        return self._low
