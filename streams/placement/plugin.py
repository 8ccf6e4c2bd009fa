"""Base classes of filters and scores.

A plugin keeps columns: arrays whose last axis is the node's row. Rows are in ascending order of node
names. The placer calls `refresh` when a node has changed, and `relayout` when rows have moved. It calls
`mask` and `scores` for a new kind of pod, and `reason` and `score` for single rows after changes. Their
results must agree; a property test checks this for every registered plugin.

    prepare(kind)            compute once per kind what the other methods need
    can_refuse(prepared)     filter: False if the filter never refuses pods of this kind
    mask(prepared)           filter: shape (nodes,), bool, True = passes; None = every node passes
    reason(prepared, row)    filter: why one node is refused; None = passes
    reasons(prepared, rows)  filter: reasons of all rows that `mask` refuses
    scores(prepared)         score: shape (nodes,), int32 0..100 (float64 if `normalized`)
    score(prepared, row)     score: the score of one row
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from schemas.policy import Policy
from streams.inventory.node import Node
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, IntArray
from streams.usage.estimate import Estimator


def _find_runs(source: IntArray) -> list[tuple[int, int, int]]:
    """Return runs of rows that stay adjacent: first new row, first old row, length.

    Usually few nodes come or go at a time. So there are few runs, and slices move the items of lists.
    """
    new = np.flatnonzero(source >= 0)
    old = source[new]
    starts = np.flatnonzero((np.diff(new, prepend=-2) != 1) | (np.diff(old, prepend=-2) != 1))
    lengths = np.diff(starts, append=new.size)
    return list(zip(new[starts].tolist(), old[starts].tolist(), lengths.tolist(), strict=True))


class Plugin(ABC):
    name: ClassVar[str]
    watches: ClassVar[int]
    """Changes after which a row must be refreshed."""
    columns: ClassVar[tuple[str, ...]] = ()
    """Names of attributes that are arrays with the row as last axis, or lists with one item per row."""

    def relayout(self, source: IntArray) -> None:
        """Move rows: new row i is old row `source[i]`, or -1 for a new node, which is refreshed next."""
        is_old = source >= 0
        runs = _find_runs(source)
        for name in self.columns:
            column = getattr(self, name)
            if isinstance(column, list):
                moved: Any = [None] * source.size
                for new, old, length in runs:
                    moved[new : new + length] = column[old : old + length]
            else:
                moved = np.zeros((*column.shape[:-1], source.size), dtype=column.dtype)
                moved[..., is_old] = column[..., source[is_old]]
            setattr(self, name, moved)

    @classmethod
    def build(cls, policy: Policy, estimator: Estimator) -> Self:
        """Build the plugin from its arguments in the policy. By default, a plugin has no arguments."""
        return cls()

    @abstractmethod
    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        """Update the columns of a node's row."""

    @abstractmethod
    def prepare(self, kind: Kind) -> Any:
        """Compute once per kind what `mask` and `reason`, or `scores` and `score`, need."""


class Filter(Plugin):
    @abstractmethod
    def mask(self, prepared: Any) -> BoolArray | None:
        """Return which nodes pass; None if all do."""

    def can_refuse(self, prepared: Any) -> bool:
        """Return False if the filter never refuses pods of this kind, so that rankings can skip it."""
        return True

    def count_units(self, prepared: Any) -> int:
        """Return the extra cost of `mask` and `reasons` for 5,000 nodes, in units of a budget."""
        return 0

    @abstractmethod
    def reason(self, prepared: Any, row: int) -> str | None:
        """Return why a node is refused, as in "node(s) cpu usage exceed threshold"; None if it passes."""

    def reasons(self, prepared: Any, rows: IntArray) -> Iterable[tuple[str, IntArray]]:
        """Return each reason with its rows; the filter refuses all of `rows`.

        Filters override this with array operations: thousands of calls of `reason` take milliseconds.
        """
        by_reason: dict[str, list[int]] = {}
        for row in rows.tolist():
            reason = self.reason(prepared, row)
            assert reason is not None  # noqa: S101 - the mask refuses the row
            by_reason.setdefault(reason, []).append(row)
        return [
            (reason, np.array(refused, dtype=np.int64)) for reason, refused in by_reason.items()
        ]


class SingleReasonFilter(Filter):
    """A filter with the same reason for all nodes."""

    single_reason: ClassVar[str]

    def reasons(self, prepared: Any, rows: IntArray) -> Iterable[tuple[str, IntArray]]:
        return [(self.single_reason, rows)] if rows.size else []


class Score(Plugin):
    normalized: ClassVar[bool] = False
    """True if scores are raw float64, to be stretched to 0..100 over the nodes that pass."""

    @abstractmethod
    def scores(self, prepared: Any) -> NDArray[Any]:
        """Return the scores of all nodes, in an array that the caller may change."""

    @abstractmethod
    def score(self, prepared: Any, row: int) -> float:
        """Return the score of one node; an int unless `normalized`."""
