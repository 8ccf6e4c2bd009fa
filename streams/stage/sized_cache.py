"""A cache with a limit in bytes for values that can be computed again.

A limit on the number of entries is not enough, because the size of an entry depends on users' input. The
caller estimates the bytes of each entry, including its key.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class SizedCache(Generic[Key, Value]):
    """Values by key, limited in number and bytes. The entry put or renewed longest ago is dropped first."""

    def __init__(self, bytes_max: int, entries_max: int) -> None:
        self.bytes_max = bytes_max
        self.entries_max = entries_max
        self.bytes = 0
        """Sum of the sizes of all values."""
        self._entries: dict[Key, tuple[Value, int]] = {}

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: Key) -> Value | None:
        entry = self._entries.get(key)
        return None if entry is None else entry[0]

    def renew(self, key: Key) -> Value | None:
        """Return the value of a key; its entry is dropped last."""
        entry = self._entries.pop(key, None)
        if entry is None:
            return None
        self._entries[key] = entry
        return entry[0]

    def put(self, key: Key, value: Value, size: int) -> None:
        """Keep a value, unless it is larger than the cache."""
        if key in self._entries:
            self.drop(key)
        if size > self.bytes_max or not self.entries_max:
            return
        while self.bytes + size > self.bytes_max or len(self._entries) >= self.entries_max:
            self.drop(next(iter(self._entries)))
        self._entries[key] = value, size
        self.bytes += size

    def drop(self, key: Key) -> None:
        entry = self._entries.pop(key, None)
        if entry is not None:
            self.bytes -= entry[1]

    def clear(self) -> None:
        self._entries.clear()
        self.bytes = 0
