"""Rows of one kind of a cluster: what is kept, by name, and which rows are to be written.

The parts of a cluster's state list their `TrackedRows`, and rows are written and restored by these
lists alone. Where the state is kept as its rows, this class is enough. Where it is kept in another
form, a subclass says how it becomes rows (`row`, or `encode` where that must be fast) and how it
comes from rows (`take`).
"""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Generic, TypeVar

from schemas.topics.codec import encode

K = TypeVar("K", bound="str | tuple[str, str]")
V = TypeVar("V")


class TrackedRows(Generic[K, V]):
    """Rows of one kind of a cluster."""

    def __init__(
        self, kind: str, key: Callable[[V], Any] = lambda _: "", *, sorted_keys: bool = False
    ) -> None:
        """Start empty.

        Args:
            kind: of the rows.
            key: the key of a row that is put; by default the kind has one row, whose name is empty.
            sorted_keys: rows are written in the order of their keys, not in that of their changes.
        """
        self.kind = kind
        self._key = key
        self._sorted = sorted_keys
        self.rows: dict[K, V] = {}
        """What is kept."""
        self.changed: dict[K, None] = {}
        """Keys of rows to write."""

    def __len__(self) -> int:
        """How much is kept; 0 also of what is as in a new cluster."""
        return len(self.rows)

    def row(self, key: K) -> Any:
        """The row of a key; None: there is none."""
        return self.rows.get(key)

    def encode(self, key: K) -> bytes | None:
        """The row of a key as bytes; None: there is none."""
        row = self.row(key)
        return None if row is None else encode(row)

    def set(self, key: K, value: V) -> None:
        """Keep something under a key."""
        self.rows[key] = value
        self.changed[key] = None

    def put(self, row: V) -> None:
        """Keep a row under its key."""
        self.set(self._key(row), row)

    def drop(self, key: K) -> V | None:
        """Keep nothing under a key; answers with what was there."""
        value = self.rows.pop(key, None)
        if value is not None:
            self.changed[key] = None
        return value

    def take(self, row: Any) -> None:
        """Take over a row as it was written."""
        self.put(row)

    def note_changed(self) -> None:
        """Count as changed what has, of rows of which others know that."""

    def settle(self) -> None:
        """Note what has changed as written."""
        self.note_changed()
        self.changed.clear()

    def changed_rows(self) -> Iterator[tuple[str, bytes | None]]:
        """Name and row of what has changed since the last call; None: it is gone."""
        self.note_changed()
        for key in sorted(self.changed) if self._sorted else self.changed:
            yield key if isinstance(key, str) else "/".join(key), self.encode(key)
        self.changed.clear()

    def restore(self, rows: Iterable[Any]) -> None:
        """Take over all rows; while nothing is kept only."""
        for row in rows:
            self.take(row)
        self.changed.clear()
