"""Columns of values that many nodes share, and columns that are built on first use.

Thousands of nodes have few distinct taints and few distinct values of a label. `InternedColumn` gives
each distinct value an id and stores one id per row. A requirement is evaluated once per distinct value,
and one numpy operation spreads the result over the rows. `LazyColumns` keeps columns of the labels and
resources that pods name. It drops the least recently used columns: otherwise names that users invent
would grow the worker's memory without limit.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Sequence
from typing import Generic, TypeVar

import numpy as np

from streams.stage.arrays import BoolArray, IntArray

Value = TypeVar("Value", bound=Hashable)
Column = TypeVar("Column")


class InternedColumn(Generic[Value]):
    """One value per row. Each distinct value is stored once, and dropped with its last row."""

    def __init__(self, default: Value, values: Iterable[Value] = ()) -> None:
        """Start with one row per value; `default` is the value of rows that are added later."""
        self._default = default
        self._id_of: dict[Value, int] = {}
        self._values: list[Value] = []
        """Values by id; entries of free ids are stale."""
        self._counts: list[int] = []
        """Number of rows by id."""
        self._free: list[int] = []
        """Ids without rows."""
        self._ids: IntArray = np.array(self._intern_all(values), dtype=np.int64)
        """Shape (nodes,)."""
        self._count_rows()

    def __len__(self) -> int:
        return len(self._id_of)

    def __contains__(self, value: object) -> bool:
        return value in self._id_of

    def __iter__(self) -> Iterator[Value]:
        """Iterate over the distinct values."""
        return iter(self._id_of)

    def get(self, row: int) -> Value:
        return self._values[self._ids.item(row)]

    def put(self, row: int, value: Value) -> None:
        old = self._ids.item(row)
        new = self._id_of.get(value)
        if new == old:
            return
        self._counts[old] -= 1
        if not self._counts[old]:
            self._free_id(old)
        if new is None:
            new = self._intern(value)
        self._counts[new] += 1
        self._ids[row] = new

    def relayout(self, source: IntArray) -> None:
        """Move rows as `Plugin.relayout` does; new rows get the default value."""
        is_old = source >= 0
        ids = np.zeros(source.size, dtype=np.int64)
        ids[is_old] = self._ids[source[is_old]]
        if not is_old.all():
            ids[~is_old] = self._intern(self._default)
        self._ids = ids
        self._count_rows()
        for old in [i for i in self._id_of.values() if not self._counts[i]]:
            self._free_id(old)

    def mask_passing(self, test: Callable[[Value], bool]) -> BoolArray | None:
        """Return a mask of the rows whose value passes the test; None if all pass.

        The test is called once per distinct value.
        """
        passing = [i for value, i in self._id_of.items() if test(value)]
        return None if len(passing) == len(self._id_of) else self._mask(passing)

    def mask_values(self, values: Iterable[Value]) -> BoolArray:
        """Return a mask of the rows that have one of some values."""
        return self._mask([self._id_of[value] for value in values if value in self._id_of])

    def map_to_numbers(self, number_of: Callable[[Value], int]) -> IntArray:
        """Return the number of each row's value, computed once per distinct value; shape (nodes,)."""
        numbers = np.zeros(len(self._values), dtype=np.int64)
        for value, i in self._id_of.items():
            numbers[i] = number_of(value)
        return numbers.take(self._ids)

    def group_rows(self, rows: IntArray) -> Iterable[tuple[Value, IntArray]]:
        """Yield each distinct value of some rows, with its rows."""
        ids = self._ids[rows]
        order = np.argsort(ids, kind="stable")
        distinct, starts = np.unique(ids[order], return_index=True)
        groups = np.split(rows[order], starts[1:])
        for i, group in zip(distinct.tolist(), groups, strict=True):
            yield self._values[i], group

    def _mask(self, ids: list[int]) -> BoolArray:
        if len(ids) == 1:
            mask: BoolArray = self._ids == ids[0]
            return mask
        has_id = np.zeros(len(self._values), dtype=np.bool_)
        has_id[ids] = True
        return has_id.take(self._ids)

    def _count_rows(self) -> None:
        self._counts = np.bincount(self._ids, minlength=len(self._values)).tolist()

    def _intern_all(self, values: Iterable[Value]) -> list[int]:
        # Looking up existing values here saves a third of the time of a new column.
        id_of, ids = self._id_of, []
        for value in values:
            value_id = id_of.get(value)
            ids.append(self._intern(value) if value_id is None else value_id)
        return ids

    def _intern(self, value: Value) -> int:
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

    def _free_id(self, old: int) -> None:
        del self._id_of[self._values[old]]
        self._free.append(old)


class NameCounts(dict[str, int]):
    """Number of rows per name, for example per label key. Names without rows need no column."""

    def replace(self, before: Collection[str] | None, after: Collection[str]) -> None:
        """Count the names of a row after a change; `before` is None for a new row."""
        if before is not None and _get_names(before) == _get_names(after):
            return
        for name in after:
            self[name] = self.get(name, 0) + 1
        self._drop(before or ())

    def relayout(self, names: Sequence[Collection[str] | None], source: IntArray) -> None:
        """Drop rows as `Plugin.relayout` does; `names` has the names of each old row."""
        removed = np.ones(len(names), dtype=np.bool_)
        removed[source[source >= 0]] = False
        for row in np.flatnonzero(removed).tolist():
            self._drop(names[row] or ())

    def _drop(self, names: Iterable[str]) -> None:
        for name in names:
            self[name] -= 1
            if not self[name]:
                del self[name]


def _get_names(names: Collection[str]) -> Collection[str]:
    return names.keys() if isinstance(names, dict) else names


class LazyColumns(dict[str, Column], Generic[Column]):
    """At most `limit` columns by name, built on first use. Drops the least recently used column first."""

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
