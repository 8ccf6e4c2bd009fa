"""Columns of values that many nodes share, and columns that are built on first use.

Thousands of nodes have few distinct taints and few distinct values of a label. `Interned` gives
each distinct value a small number and stores one number per row. A requirement is evaluated once
per distinct value, and one numpy operation spreads the result over the rows. `LazyColumns` keeps
columns of the labels and resources that pods name. It drops the least recently used columns, so
that names which users invent do not grow the worker's memory without limit.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np

from streams.stage.arrays import BoolArray, IntArray

Value = TypeVar("Value", bound=Hashable)
Column = TypeVar("Column")


class Interned(Generic[Value]):
    """One value per row. Each distinct value is stored once, and dropped with its last row."""

    def __init__(self, default: Value, values: Iterable[Value] = ()) -> None:
        """Start with one row per value; `default` is the value of later rows."""
        self._default = default
        self._id_of: dict[Value, int] = {}
        self._values: list[Value] = []
        """Values by id; entries of free ids are stale."""
        self._counts: list[int] = []
        """Number of rows by id."""
        self._free: list[int] = []
        """Ids without rows."""
        self._ids: IntArray = np.array(self._ids_of(values), dtype=np.int64)
        """Shape (nodes,)."""
        self._count()

    def __len__(self) -> int:
        return len(self._id_of)

    def __contains__(self, value: object) -> bool:
        return value in self._id_of

    def __iter__(self) -> Iterator[Value]:
        """Iterate over the distinct values."""
        return iter(self._id_of)

    def value(self, row: int) -> Value:
        return self._values[self._ids.item(row)]

    def put(self, row: int, value: Value) -> None:
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
        """Move rows as `Plugin.relayout` does; new rows get the default value."""
        is_old = source >= 0
        ids = np.zeros(source.size, dtype=np.int64)
        ids[is_old] = self._ids[source[is_old]]
        if not is_old.all():
            ids[~is_old] = self._id(self._default)
        self._ids = ids
        self._count()
        for old in [i for i in self._id_of.values() if not self._counts[i]]:
            self._forget(old)

    def where(self, test: Callable[[Value], bool]) -> BoolArray | None:
        """Return a mask of the rows whose value passes; None if all pass.

        The test is called once per distinct value.
        """
        passing = [i for value, i in self._id_of.items() if test(value)]
        return None if len(passing) == len(self._id_of) else self._rows(passing)

    def rows_with(self, values: Iterable[Value]) -> BoolArray:
        """Return a mask of the rows that have one of these values."""
        return self._rows([self._id_of[value] for value in values if value in self._id_of])

    def map(self, number_of: Callable[[Value], int]) -> IntArray:
        """Return a number per row, computed once per distinct value; shape (nodes,)."""
        numbers = np.zeros(len(self._values), dtype=np.int64)
        for value, i in self._id_of.items():
            numbers[i] = number_of(value)
        return numbers.take(self._ids)

    def groups(self, rows: IntArray) -> Iterable[tuple[Value, IntArray]]:
        """Yield each distinct value of some rows, with the rows that have it."""
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
        id_of, ids = self._id_of, []
        for value in values:
            number = id_of.get(value)
            ids.append(self._id(value) if number is None else number)
        return ids

    def _id(self, value: Value) -> int:
        existing = self._id_of.get(value)
        if existing is not None:
            return existing
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


class NameCounts(dict[str, int]):
    """Number of rows per name, for example per label key.

    A name that no row has needs no column.
    """

    def replace(self, before: Collection[str] | None, after: Collection[str]) -> None:
        """Count a row's new names instead of its old ones; `before` is None for a new row."""
        if before is not None and _names(before) == _names(after):
            return
        for name in after:
            self[name] = self.get(name, 0) + 1
        self._drop(before or ())

    def relayout(self, names: Sequence[Collection[str] | None], source: IntArray) -> None:
        """Drop rows as `Plugin.relayout` does; `names` are those of the old rows."""
        removed = np.ones(len(names), dtype=np.bool_)
        removed[source[source >= 0]] = False
        for row in np.flatnonzero(removed).tolist():
            self._drop(names[row] or ())

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            self[name] -= 1
            if not self[name]:
                del self[name]


def _names(names: Collection[str]) -> Collection[str]:
    return names.keys() if isinstance(names, dict) else names


class LazyColumns(dict[str, Column], Generic[Column]):
    """Columns by name, built on first use.

    At most `limit` columns are kept. The least recently used one is dropped first, and is built
    again on its next use.
    """

    def __init__(self, limit: int) -> None:
        super().__init__()
        self._limit = limit

    def get_or_build(self, name: str, build: Callable[[str], Column]) -> Column:
        column = self.pop(name, None)
        if column is None:
            column = build(name)
            while len(self) >= self._limit:
                del self[next(iter(self))]
        self[name] = column
        return column
