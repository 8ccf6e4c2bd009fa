"""What is kept of one table, by key, and which of it has changed since its rows were written last.

A part of a state that is kept in a table holds it as one of these, and the state lists them: rows
are written, restored and counted by that list alone. `TrackedRows` keeps the rows themselves; what
is kept in another form says how it becomes rows (`row`) and comes from them (`take`).
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from schemas.base import Message

K = TypeVar("K", bound="str | tuple[str, str]")
V = TypeVar("V")
R = TypeVar("R", bound=Message)


class TrackedTable(ABC, Generic[K, V]):
    """One table of a cluster."""

    def __init__(self, kind: str, *, sorted_keys: bool = False) -> None:
        """Start empty.

        Args:
            kind: of the rows.
            sorted_keys: rows are written in the order of their keys, not in that of their changes.
        """
        self.kind = kind
        self._sorted = sorted_keys
        self.rows: dict[K, V] = {}
        """What is kept."""
        self.changed: dict[K, None] = {}
        """Keys of rows to write."""

    def __len__(self) -> int:
        """How much is kept; 0 also of what is as in a new cluster."""
        return len(self.rows)

    @abstractmethod
    def row(self, key: K) -> Message | None:
        """The row of a key; None: there is none."""

    @abstractmethod
    def take(self, row: Any) -> None:
        """Take over a row as it was written."""

    def set(self, key: K, value: V) -> None:
        """Keep something under a key."""
        self.rows[key] = value
        self.changed[key] = None

    def drop(self, key: K) -> V | None:
        """Keep nothing under a key; answers with what was there."""
        value = self.rows.pop(key, None)
        if value is not None:
            self.changed[key] = None
        return value

    def note_changed(self) -> None:
        """Count as changed what has, of a table of which others know that."""

    def settle(self) -> None:
        """Note what has changed as written."""
        self.note_changed()
        self.changed.clear()

    def changed_rows(self) -> Iterator[tuple[str, Message | None]]:
        """Key within the cluster and row of what has changed since the last call; None: it is gone."""
        self.note_changed()
        for key in sorted(self.changed) if self._sorted else self.changed:
            yield key if isinstance(key, str) else "/".join(key), self.row(key)
        self.changed.clear()

    def restore(self, rows: Iterable[Any]) -> None:
        """Take over all rows; of a new table only."""
        for row in rows:
            self.take(row)
        self.changed.clear()


class TrackedRows(TrackedTable[K, R]):
    """A table that is kept as its rows."""

    def __init__(self, kind: str, key: Callable[[R], K], *, sorted_keys: bool = False) -> None:
        """Start empty; `key` says where a row is kept."""
        super().__init__(kind, sorted_keys=sorted_keys)
        self.key_of: Callable[[R], K] = key

    def row(self, key: K) -> R | None:
        """The row of a key; None: there is none."""
        return self.rows.get(key)

    def put(self, row: R) -> None:
        """Keep a row as it is now."""
        self.set(self.key_of(row), row)

    def take(self, row: R) -> None:
        """Take over a row as it was written."""
        self.put(row)
