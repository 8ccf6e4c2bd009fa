"""Columns of values that many nodes share, and columns that are built when first asked for.

Thousands of nodes have few distinct taints and few distinct values of a label. `Interned` gives
each distinct value a small number and keeps one number a row, so that a requirement is evaluated
once per distinct value and spread over the rows by one numpy operation. `OnDemand` keeps the
columns of the labels and resources that pods ask for, and lets go of those that nobody has asked
for lately: what a cluster's users write into their pods must not make a worker grow for ever.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Sequence
from typing import Generic, TypeVar

import numpy as np

from streams.stage.arrays import BoolArray, IntArray

Value = TypeVar("Value", bound=Hashable)
Column = TypeVar("Column")


class Interned(Generic[Value]):
    """One value a row, each distinct value kept once and forgotten with the last row that has it."""

    def __init__(self, default: Value, values: Iterable[Value] = ()) -> None:
        """Start with one row for each value.

        Args:
            default: value of a row that is new.
            values: those of the rows that there are, in their order.
        """
        self._default = default
        self._id_of: dict[Value, int] = {}
        self._values: list[Value] = []
        """By id; that of a free id means nothing."""
        self._counts: list[int] = []
        """Rows that have the value, by id."""
        self._free: list[int] = []
        """Ids that no row has."""
        self._ids: IntArray = np.array(self._ids_of(values), dtype=np.int64)
        """Shape (nodes,)."""
        self._count()

    def __len__(self) -> int:
        """Number of distinct values."""
        return len(self._id_of)

    def __contains__(self, value: object) -> bool:
        """Whether some row has a value."""
        return value in self._id_of

    def value(self, row: int) -> Value:
        """The value of one row."""
        return self._values[self._ids.item(row)]

    def put(self, row: int, value: Value) -> None:
        """Give one row a value."""
        old = self._ids.item(row)
        new = self._id_of.get(value)
        if new == old:
            return
        self._counts[old] -= 1
        if not self._counts[old]:
            self._forget(old)
        if new is None:
            new = self._id(value)
        self._counts[new] += 1
        self._ids[row] = new

    def relayout(self, source: IntArray) -> None:
        """Move rows as `Plugin.relayout` does; rows that are new have the default value."""
        known = source >= 0
        ids = np.zeros(source.size, dtype=np.int64)
        ids[known] = self._ids[source[known]]
        if not known.all():
            ids[~known] = self._id(self._default)
        self._ids = ids
        self._count()
        for old in [i for i in self._id_of.values() if not self._counts[i]]:
            self._forget(old)

    def where(self, test: Callable[[Value], bool]) -> BoolArray | None:
        """The rows whose value passes a test, called once per distinct value; None if all pass.

        Returns:
            Shape (nodes,), the caller's own.
        """
        passing = [i for value, i in self._id_of.items() if test(value)]
        return None if len(passing) == len(self._id_of) else self._rows(passing)

    def holding(self, values: Iterable[Value]) -> BoolArray:
        """The rows that have one of these values, at a cost that does not grow with the distinct
        ones.

        Returns:
            Shape (nodes,), the caller's own.
        """
        return self._rows([self._id_of[value] for value in values if value in self._id_of])

    def map(self, number_of: Callable[[Value], int]) -> IntArray:
        """A number for each row, computed once per distinct value; shape (nodes,)."""
        numbers = np.zeros(len(self._values), dtype=np.int64)
        for value, i in self._id_of.items():
            numbers[i] = number_of(value)
        return numbers.take(self._ids)

    def groups(self, rows: IntArray) -> Iterable[tuple[Value, IntArray]]:
        """The distinct values of some rows, each with those of them that have it."""
        ids = self._ids[rows]
        order = np.argsort(ids, kind="stable")
        numbers, begins = np.unique(ids[order], return_index=True)
        parts = np.split(rows[order], begins[1:])
        for number, part in zip(numbers.tolist(), parts, strict=True):
            yield self._values[number], part

    def _rows(self, ids: list[int]) -> BoolArray:
        rows: BoolArray
        if len(ids) == 1:
            rows = self._ids == ids[0]
        else:
            table = np.zeros(len(self._values), dtype=np.bool_)
            table[ids] = True
            rows = table.take(self._ids)
        return rows

    def _count(self) -> None:
        self._counts = np.bincount(self._ids, minlength=len(self._values)).tolist()

    def _ids_of(self, values: Iterable[Value]) -> list[int]:
        known, ids = self._id_of, []
        for value in values:
            number = known.get(value)
            ids.append(self._id(value) if number is None else number)
        return ids

    def _id(self, value: Value) -> int:
        known = self._id_of.get(value)
        if known is not None:
            return known
        if self._free:
            new = self._free.pop()
            self._values[new] = value
        else:
            new = len(self._values)
            self._values.append(value)
            self._counts.append(0)
        self._id_of[value] = new
        return new

    def _forget(self, old: int) -> None:
        del self._id_of[self._values[old]]
        self._free.append(old)


class Census(dict[str, int]):
    """Names that rows have, such as keys of labels, with how many rows have each.

    What no row has needs no column: the answer is the same for every row.
    """

    def change(self, before: Collection[str] | None, after: Collection[str]) -> None:
        """A row has other names than before; None: it is new."""
        if before is not None and _names(before) == _names(after):
            return
        for name in after:
            self[name] = self.get(name, 0) + 1
        self._drop(before or ())

    def relayout(self, names: Sequence[Collection[str] | None], source: IntArray) -> None:
        """Rows move as `Plugin.relayout` says; names are those of the rows before."""
        gone = np.ones(len(names), dtype=np.bool_)
        gone[source[source >= 0]] = False
        for row in np.flatnonzero(gone).tolist():
            self._drop(names[row] or ())

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            self[name] -= 1
            if not self[name]:
                del self[name]


def _names(names: Collection[str]) -> Collection[str]:
    return names.keys() if isinstance(names, dict) else names


class OnDemand(dict[str, Column], Generic[Column]):
    """Columns by name, built when first asked for.

    At most `limit` are kept; the one that was asked for longest ago goes first and is built again
    when it is asked for again, so the limit bounds memory and the cost of a change, never an
    answer.
    """

    def __init__(self, limit: int) -> None:
        """Start empty.

        Args:
            limit: most columns kept, at least 1.
        """
        super().__init__()
        self._limit = limit

    def ask(self, name: str, build: Callable[[str], Column]) -> Column:
        """The column of a name.

        Args:
            name: of a label or a resource.
            build: makes the column from what is known of all rows, if it is not kept.
        """
        column = self.pop(name, None)
        if column is None:
            column = build(name)
            while len(self) >= self._limit:
                del self[next(iter(self))]
        self[name] = column
        return column
