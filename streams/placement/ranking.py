"""Results of all filters and scores on all nodes, for one kind of pod.

A ranking is computed once for all nodes. Afterwards it reads the log of changed nodes and recomputes
their rows only. The result equals that of a new ranking.

Totals are weighted sums of scores from 0 to 100. If the policy has one score, which is normalized, totals
are the raw scores instead, and only the nodes that a decision names get a score. Otherwise every placement,
which changes the best node, would change the scores of all nodes. The best node is the same in both ways.
Raw scores also distinguish runners-up with equal scores.

A normalized score stretches raw scores of any size to 0..100 over the nodes that pass. The best node gets 100
and the worst 0; if all are equal, every node gets 100 (docs/reference/upstream.md R5). `_stretch_all` and
`_stretch` use the same arithmetic in the same order, so their results are equal.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from streams.inventory.node_index import Change, NodeIndex
from streams.placement.plugin import Filter, Score
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, FloatArray

#: With more changed rows than this share of all nodes, all rows are recomputed: for 5,000 nodes this
#: takes as long as 50 single rows.
_RECOMPUTE_SHARE = 1 / 100
#: Total of a node that some filter refuses.
REFUSED = -1
#: Means that the best row has to be computed.
_UNKNOWN = -1
_NO_TOTALS: NDArray[np.int32] = np.zeros(0, dtype=np.int32)


@dataclass(frozen=True, slots=True)
class Term:
    """One score of one node."""

    plugin: str
    score: int
    weight: int


class Ranking:
    def __init__(
        self,
        index: NodeIndex,
        filters: Sequence[Filter],
        scores: Sequence[tuple[Score, int]],
        kind: Kind,
    ) -> None:
        self._index = index
        self.kind = kind
        self._filters = [(plugin, plugin.prepare(kind)) for plugin in filters]
        self._scores = [(plugin, plugin.prepare(kind), weight) for plugin, weight in scores]
        self._totals_are_raw = len(scores) == 1 and scores[0][0].normalized
        self._refused: float = -inf if self._totals_are_raw else REFUSED
        """Total of a node that some filter refuses."""
        self._lowest: float | None = None
        """Lowest raw score of the nodes that pass; None if it has to be computed."""
        self._relevant_filters = [
            (number, plugin.reason, prepared, plugin.watches)
            for number, (plugin, prepared) in enumerate(self._filters, start=1)
            if plugin.can_refuse(prepared)
        ]
        """Filters that may refuse this kind, with their positions from 1."""
        self.strict: Ranking | None = None
        """The ranking by all filters, if this ranking is without soft filters."""
        self.generation = -1
        self.position = 0
        """Position in the log of changes up to which this ranking is current."""
        self.totals: NDArray[Any] = _NO_TOTALS
        """Total per node, or `_refused`; shape (nodes,)."""
        self.refused_by: list[int] = []
        """Number of nodes per filter; a node counts for the first filter that refuses it."""
        self._best: int | None = _UNKNOWN
        """Row with the highest total; `_UNKNOWN` after a change."""

    # --- all rows -------------------------------------------------------------------------------

    def compute(self) -> None:
        """Compute the results of all plugins for all nodes."""
        passes: BoolArray | None = None
        self._masks = [plugin.mask(prepared) for plugin, prepared in self._filters]
        """Masks of the filters, until `_get_refusals` has read them."""
        self.refused_by = []
        passing = self._index.size
        for mask in self._masks:
            remaining = passing
            if mask is not None:
                passes = mask if passes is None else passes & mask
                passing = int(np.count_nonzero(passes))
            self.refused_by.append(remaining - passing)
        self._refusals: bytearray | None = None
        self._tally: Counter[str] | None = None
        self._raw: list[FloatArray | None] = []
        self._bounds: list[tuple[float, float]] = []
        self.totals = self._compute_totals(passes, passing)

    def _compute_totals(self, passes: BoolArray | None, passing: int) -> NDArray[Any]:
        totals: NDArray[Any] | None = None
        self._fixed: NDArray[np.int32] | None = None
        """Part of the totals that is not normalized; None if the totals are this part."""
        if self._totals_are_raw:
            plugin, prepared, _ = self._scores[0]
            totals = plugin.scores(prepared)
            if passes is not None and passing < totals.size:
                np.putmask(totals, ~passes, self._refused)
            self._lowest = None
            return totals
        if any(plugin.normalized for plugin, _, _ in self._scores):
            self._fixed = np.zeros(self._index.size, dtype=np.int32)
        for plugin, prepared, weight in self._scores:
            scores = plugin.scores(prepared)
            if plugin.normalized:
                scores = np.ascontiguousarray(scores, dtype=np.float64)
                self._raw.append(scores)
                self._bounds.append(_find_bounds(scores, passes, passing))
                scores = _stretch_all(scores, *self._bounds[-1])
            else:
                self._raw.append(None)
                self._bounds.append((0.0, 0.0))
            if weight != 1:
                scores = scores * np.int32(weight)
            if self._fixed is not None and not plugin.normalized:
                self._fixed += scores
            totals = scores if totals is None else totals + scores
        if totals is None:
            totals = np.zeros(self._index.size, dtype=np.int32)
        if passes is not None and passing < totals.size:
            _refuse(totals, passes)
        return totals

    # --- changed rows ---------------------------------------------------------------------------

    def sync(self) -> None:
        """Apply the changes of nodes since the last call."""
        index = self._index
        if self.generation != index.generation or self.position != index.log_end:
            self._best = _UNKNOWN
        if self.generation != index.generation or self.position < index.log_start:
            self.compute()
        else:
            entries = index.log[self.position - index.log_start :]
            if len(entries) > max(8, index.size * _RECOMPUTE_SHARE):
                self.compute()
            elif entries:
                changes: dict[int, int] = {}
                for node, change in entries:
                    changes[node.row] = changes.get(node.row, 0) | change
                self._recompute_rows(changes)
        self.generation = index.generation
        self.position = index.log_end

    def _recompute_rows(self, changes: Mapping[int, int]) -> None:
        """Recompute changed rows; `changes` has the changed parts of each node by row."""
        refusals = self._get_refusals()
        self._tally = None
        stretched = False
        for row, change in changes.items():
            before = refusals[row]
            after = 0
            for number, explain, prepared, watches in self._relevant_filters:
                if not before and not watches & change:
                    continue  # the node passed this filter, and still does
                if explain(prepared, row) is not None:
                    after = number
                    break
            if before != after:
                refusals[row] = after
                if before:
                    self.refused_by[before - 1] -= 1
                if after:
                    self.refused_by[after - 1] += 1
            stretched |= self._rescore(row, refused=after > 0)
        if stretched:
            self._restretch()

    def _rescore(self, row: int, *, refused: bool) -> bool:
        """Score one row; return whether bounds of a normalized score may have moved."""
        if self._totals_are_raw:
            self._replace_raw(row, refused=refused)
            return False
        bounds_moved = False
        fixed = total = 0
        passed_before = self.totals[row] != REFUSED
        for index, (plugin, prepared, weight) in enumerate(self._scores):
            raw = self._raw[index]
            if raw is None:
                if not refused:
                    fixed += weight * int(plugin.score(prepared, row))
                continue
            low, high = self._bounds[index]
            before = raw[row]
            raw[row] = after = plugin.score(prepared, row)
            leaves_bounds = (
                passed_before and (refused or after != before) and (before <= low or before >= high)
            )
            if leaves_bounds or not (refused or low <= after <= high):
                bounds_moved = True
            if not refused:
                total += weight * _stretch(after, low, high)
        if refused:
            self.totals[row] = REFUSED
        else:
            self.totals[row] = fixed + total
            if self._fixed is not None:
                self._fixed[row] = fixed
        return bounds_moved

    def _replace_raw(self, row: int, *, refused: bool) -> None:
        plugin, prepared, _ = self._scores[0]
        before = self.totals[row]
        after = self._refused if refused else plugin.score(prepared, row)
        self.totals[row] = after
        lowest = self._lowest
        if lowest is not None and (before == lowest or (not refused and after < lowest)):
            self._lowest = None

    def _restretch(self) -> None:
        """Compute all totals from the raw scores again, if bounds of normalized scores have moved."""
        passes = self.totals != REFUSED
        passing = int(np.count_nonzero(passes))
        bounds = [
            before if raw is None else _find_bounds(raw, passes, passing)
            for raw, before in zip(self._raw, self._bounds, strict=True)
        ]
        if bounds == self._bounds:
            return
        self._bounds = bounds
        assert self._fixed is not None  # noqa: S101 - there is a normalized score
        totals = self._fixed.copy()
        for index, (_, _, weight) in enumerate(self._scores):
            raw = self._raw[index]
            if raw is not None:
                stretched = _stretch_all(raw, *self._bounds[index])
                totals += stretched if weight == 1 else stretched * np.int32(weight)
        if passing < totals.size:
            _refuse(totals, passes)
        self.totals = totals

    def _get_refusals(self) -> bytearray:
        """Return the number of the first filter that refuses each row, from 1; 0 if the row passes."""
        if self._refusals is None:
            numbers = np.zeros(self._index.size, dtype=np.uint8)
            for number, mask in reversed(list(enumerate(self._masks, start=1))):
                if mask is not None:
                    numbers = np.where(mask, numbers, np.uint8(number))
            self._masks = []
            self._refusals = bytearray(numbers.tobytes())
        return self._refusals

    # --- queries --------------------------------------------------------------------------------

    def find_best(self, without: Collection[int] = ()) -> int | None:
        """Return the row with the highest total; None if no row passes. Rows in `without` do not count.

        Of several rows with this total, returns the first by name of the node.
        """
        if self._best == _UNKNOWN:
            row = int(self.totals.argmax()) if self.totals.size else None
            self._best = None if row is None or self.totals[row] == self._refused else row
        if self._best not in without:
            return self._best
        next_best = self.list_runners_up(1, without)
        return next_best[0] if next_best else None

    def list_runners_up(self, count: int, without: Collection[int]) -> list[int]:
        """Return the rows of the best nodes, best first, without the given rows."""
        if not count or self.totals.size <= len(without):
            return []
        totals = self.totals.copy()
        totals[list(without)] = self._refused
        rows: list[int] = []
        while len(rows) < count:
            row = int(totals.argmax())
            if totals[row] == self._refused:
                break
            rows.append(row)
            totals[row] = self._refused
        return rows

    @property
    def refused_by_name(self) -> dict[str, int]:
        """Number of nodes by the name of the first filter that refuses them, without zeros."""
        pairs = zip(self._filters, self.refused_by, strict=True)
        return {plugin.name: nodes for (plugin, _), nodes in pairs if nodes}

    @property
    def opened_by(self) -> int:
        """Changes after which a node that is refused now may accept the kind."""
        changes = Change.STATE
        for (plugin, _), nodes in zip(self._filters, self.refused_by, strict=True):
            if nodes:
                changes |= plugin.watches
        return changes

    def count_units(self) -> int:
        """Return the extra cost of computing all rows, in units of a budget."""
        return sum(plugin.count_units(prepared) for plugin, prepared in self._filters)

    def find_refusing_filter(self, row: int) -> Filter | None:
        """Return the first filter that refuses a node; needs no `sync`."""
        for plugin, prepared in self._filters:
            if plugin.reason(prepared, row) is not None:
                return plugin
        return None

    def passes(self, row: int) -> bool:
        return bool(self.totals[row] != self._refused)

    def get_refused(self) -> BoolArray:
        """Return which nodes some filter refuses; shape (nodes,)."""
        refused: BoolArray = self.totals == self._refused
        return refused

    def list_scored(
        self, row: int, count: int, without: Collection[int]
    ) -> list[tuple[int, tuple[Term, ...]]]:
        """Return row and scores of a node that passes, then of up to `count` runners-up, best first.

        Rows in `without` are no runners-up.
        """
        rows = (row, *self.list_runners_up(count, {row, *without}))
        return [(row, self._list_terms(row)) for row in rows]

    def _list_terms(self, row: int) -> tuple[Term, ...]:
        if self._totals_are_raw:
            return (self._build_single_term(row),)
        terms = []
        for index, (plugin, prepared, weight) in enumerate(self._scores):
            raw = self._raw[index]
            score = (
                int(plugin.score(prepared, row))
                if raw is None
                else _stretch(raw.item(row), *self._bounds[index])
            )
            terms.append(Term(plugin.name, score, weight))
        return tuple(terms)

    def _build_single_term(self, row: int) -> Term:
        plugin, _, weight = self._scores[0]
        best = self.find_best()
        assert best is not None  # noqa: S101 - the caller's node passes
        if self._lowest is None:
            self._lowest = float(self.totals[self.totals != self._refused].min())
        score = _stretch(self.totals[row], self._lowest, self.totals[best])
        return Term(plugin.name, score, weight)

    def count_reasons(self) -> Counter[str]:
        """Return the number of refused nodes by reason."""
        if self._tally is None:
            number_by_row = np.frombuffer(self._get_refusals(), dtype=np.uint8)
            self._tally = Counter()
            for number, (plugin, prepared) in enumerate(self._filters, start=1):
                if self.refused_by[number - 1]:
                    refused = np.flatnonzero(number_by_row == number)
                    for reason, rows in plugin.reasons(prepared, refused):
                        self._tally[reason] += rows.size
        return self._tally


def _refuse(totals: NDArray[np.int32], passes: BoolArray) -> None:
    # All bits of `REFUSED` are ones.
    totals |= passes.view(np.int8) - np.int8(1)


def _find_bounds(raw: FloatArray, passes: BoolArray | None, passing: int) -> tuple[float, float]:
    """Return the lowest and highest raw score of the `passing` nodes that pass."""
    if not passing:
        return 0.0, 0.0
    if passes is None or passing == raw.size:
        return float(raw.min()), float(raw.max())
    raw_passing = raw[passes]
    return float(raw_passing.min()), float(raw_passing.max())


def _stretch_all(raw: FloatArray, low: float, high: float) -> NDArray[np.int32]:
    if high <= low:
        return np.full(raw.size, 100, dtype=np.int32)
    # Divide first: otherwise the best node may get 99.99, which is truncated to 99.
    stretched = raw - low
    stretched /= high - low
    stretched *= 100.0
    # Refused nodes may be so far outside of the bounds that the conversion overflows.
    np.clip(stretched, 0.0, 100.0, out=stretched)
    return stretched.astype(np.int32)


def _stretch(raw: float, low: float, high: float) -> int:
    if high <= low:
        return 100
    stretched = (raw - low) / (high - low) * 100.0
    if stretched < 0.0:
        return 0
    return int(stretched) if stretched < 100.0 else 100
