"""The ranking of a policy whose only score is exact: nodes are ranked by its merits.

Scores from 0 to 100 must be recomputed for all nodes whenever the best node changes, which happens
with each placement. A single score needs no common scale with other scores. So nodes are ranked by
merits, and scores are computed only for the nodes that a decision names. The best node is the same
in both ways, because it alone scores 100. Merits also distinguish runners-up whose scores are equal.
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
    """A ranking whose totals are merits; -inf for nodes that a filter refuses."""

    _refused = -inf
    _low: float | None
    """Lowest total of the nodes that pass; None if it has to be computed."""

    def _score(self) -> tuple[ExactScore, Any, int]:
        ((plugin, prepared, weight),) = self._scores
        assert isinstance(plugin, ExactScore)  # noqa: S101 - the placer uses `Ranking` otherwise
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
        if not self.passes(row):
            return REFUSED
        return sum(term.score * term.weight for term in self.terms(row))

    def terms(self, row: int) -> tuple[Term, ...]:
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
