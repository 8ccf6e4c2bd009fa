"""What a filter or a score is.

A plugin keeps its own columns: arrays whose last axis is the node's row, rows in ascending order of
node names. The placer gives it the node that changed (`refresh`) and when rows moved (`relayout`),
and asks it two ways: for all rows at once, when a kind of pod is new, and for one row, when only
that node has changed since. Both ways must agree to the bit; a property test holds every registered
plugin to it.

    prepare(kind)            what the plugin needs to know of a kind, once per kind
    concerns(prepared)       filter: False = no node is ever refused to this kind
    mask(prepared)           filter: shape (nodes,), bool, True = passes; None = every node passes
    reason(prepared, row)    filter: why this node is refused, None = passes
    reasons(prepared, rows)  filter: the same of all rows that `mask` refuses, by reason
    scores(prepared)         score: shape (nodes,), int32 0..100 (float64 if `normalised`)
    score(prepared, row)     score: the same of one row
    merits(prepared)         exact score: shape (nodes,), float64, in the order of raw scores
    merit(prepared, row)     exact score: the same of one row
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from schemas.policy import Policy
from streams.inventory.node import Node
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, FloatArray, IntArray
from streams.usage.estimate import Estimator


def _runs(source: IntArray) -> list[tuple[int, int, int]]:
    """Known rows that stay beside each other: first new row, first old row, and how many.

    Of many nodes a few come or go at a time, so there are few, and a list is moved by slices.
    """
    new = np.flatnonzero(source >= 0)
    old = source[new]
    begins = np.flatnonzero((np.diff(new, prepend=-2) != 1) | (np.diff(old, prepend=-2) != 1))
    lengths = np.diff(begins, append=new.size)
    return list(zip(new[begins].tolist(), old[begins].tolist(), lengths.tolist(), strict=True))


class Plugin(ABC):
    """Common part of filters and scores."""

    name: ClassVar[str]
    watches: ClassVar[int]
    """Changes after which a row must be refreshed."""
    columns: ClassVar[tuple[str, ...]] = ()
    """Attributes that are arrays with the row as last axis, or lists with one item a row."""

    def relayout(self, source: IntArray) -> None:
        """Move rows: new row i is old row `source[i]`; -1 is a new node, which is refreshed next.

        Args:
            source: shape (nodes,), int64.
        """
        known = source >= 0
        runs = _runs(source)
        for name in self.columns:
            column = getattr(self, name)
            if isinstance(column, list):
                moved: Any = [None] * source.size
                for new, old, length in runs:
                    moved[new : new + length] = column[old : old + length]
            else:
                moved = np.zeros((*column.shape[:-1], source.size), dtype=column.dtype)
                moved[..., known] = column[..., source[known]]
            setattr(self, name, moved)

    @classmethod
    def build(cls, policy: Policy, estimator: Estimator) -> Self:
        """Make the plugin for a cluster with this policy; one that has no arguments needs neither."""
        return cls()

    @abstractmethod
    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        """Take over a node's state into its row."""

    @abstractmethod
    def prepare(self, kind: Kind) -> Any:
        """What `mask` and `reason`, or `scores` and `score`, need to know of a kind."""


class Filter(Plugin):
    """Says which nodes a pod must not go to."""

    @abstractmethod
    def mask(self, prepared: Any) -> BoolArray | None:
        """Which nodes pass; None if all do."""

    def concerns(self, prepared: Any) -> bool:
        """False: pods of this kind it never refuses anywhere, so that it need not be asked."""
        return True

    def count_units(self, prepared: Any) -> int:
        """What `mask` and `reasons` of 5,000 nodes take beyond the usual, in units of a budget."""
        return 0

    @abstractmethod
    def reason(self, prepared: Any, row: int) -> str | None:
        """Why one node is refused, as in "node(s) cpu usage exceed threshold"; None if it passes."""

    def reasons(self, prepared: Any, rows: IntArray) -> Iterable[tuple[str, IntArray]]:
        """Why many nodes are refused, at a cost that grows with the reasons rather than the nodes.

        A filter that has more than one reason gives them in arrays where it can; asked one by one,
        thousands of rows take milliseconds.

        Args:
            prepared: of the kind.
            rows: rows that this filter refuses, ascending; shape (refused,).

        Returns:
            Each reason once, with the rows that it holds for.
        """
        by_reason: dict[str, list[int]] = {}
        for row in rows.tolist():
            reason = self.reason(prepared, row)
            assert reason is not None  # noqa: S101 - the mask refuses the row
            by_reason.setdefault(reason, []).append(row)
        return [(reason, np.array(of, dtype=np.int64)) for reason, of in by_reason.items()]


class OneReason(Filter):
    """A filter that has one reason for all nodes."""

    the_reason: ClassVar[str]

    def reasons(self, prepared: Any, rows: IntArray) -> Iterable[tuple[str, IntArray]]:
        """The one reason, for all rows."""
        return [(self.the_reason, rows)] if rows.size else []


class Score(Plugin):
    """Says how good a node is for a pod."""

    normalised: ClassVar[bool] = False
    """True: scores are raw, any float64, and are stretched to 0..100 over the nodes that pass."""

    @abstractmethod
    def scores(self, prepared: Any) -> NDArray[Any]:
        """Scores of all nodes, an array of the caller's own."""

    @abstractmethod
    def score(self, prepared: Any, row: int) -> float:
        """Score of one node; an int where not `normalised`."""


class ExactScore(Score):
    """A score whose merits decide where no other score is enabled.

    Merits are finite and in the order of raw scores, and tell apart at least what these do; they
    need not be stretched, nor added to anything.
    """

    normalised = True

    @abstractmethod
    def merits(self, prepared: Any) -> FloatArray:
        """Merits of all nodes, an array of the caller's own."""

    @abstractmethod
    def merit(self, prepared: Any, row: int) -> float:
        """Merit of one node."""

    @abstractmethod
    def raw_of(self, merit: float) -> float:
        """The raw score of a node of this merit, as `score` gives it."""
