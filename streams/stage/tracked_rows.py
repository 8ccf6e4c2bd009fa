"""Rows of one kind of a cluster, and which of them must be written.

Each part of a cluster's state lists its `TrackedRows`, which write and restore its rows. If the state has
another form than its rows, a subclass converts the state to rows (`build_row`, or `encode` for speed) and
back (`restore_row`).
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
            kind: kind of the rows.
            key: returns the key of a row. By default there is one row, with an empty key.
            sorted_keys: write rows in the order of keys, not in the order of changes.
        """
        self.kind = kind
        self._key = key
        self._sorted = sorted_keys
        self.rows: dict[K, V] = {}
        """Rows, or the state that they are made from, by key."""
        self.changed: dict[K, None] = {}
        """Keys of rows to write (an ordered set)."""

    def __len__(self) -> int:
        """Return the size of the state; 0 for the state of a new cluster."""
        return len(self.rows)

    def build_row(self, key: K) -> Any:
        """Return the row of a key, or None."""
        return self.rows.get(key)

    def encode(self, key: K) -> bytes | None:
        row = self.build_row(key)
        return None if row is None else encode(row)

    def set(self, key: K, value: V) -> None:
        self.rows[key] = value
        self.changed[key] = None

    def put(self, row: V) -> None:
        self.set(self._key(row), row)

    def drop(self, key: K) -> V | None:
        """Remove and return the value of a key."""
        value = self.rows.pop(key, None)
        if value is not None:
            self.changed[key] = None
        return value

    def restore_row(self, row: Any) -> None:
        self.put(row)

    def note_changed(self) -> None:
        """Add keys to `changed` in subclasses that do not add them at once."""

    def take_changed_rows(self) -> Iterator[tuple[str, bytes | None]]:
        """Yield name and bytes of each row changed since the last call; None for a deleted row."""
        self.note_changed()
        for key in sorted(self.changed) if self._sorted else self.changed:
            yield key if isinstance(key, str) else "/".join(key), self.encode(key)
        self.changed.clear()

    def restore(self, rows: Iterable[Any]) -> None:
        """Restore all rows into empty state."""
        for row in rows:
            self.restore_row(row)
        self.changed.clear()
