"""A cache with a limit in bytes for values that can be computed again.

A limit on the number of entries is not enough, because users' input decides how large an entry is. The
caller estimates the bytes of each entry, including its key.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class SizedCache(Generic[Key, Value]):
    """Values by key, limited in number and bytes; the one renewed longest ago is dropped first."""

    def __init__(self, bytes_max: int, entries_max: int) -> None:
        self.bytes_max = bytes_max
        self.entries_max = entries_max
        self.bytes = 0
        """Sum of the sizes of all values."""
        self._kept: dict[Key, tuple[Value, int]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key) -> Value | None:
        entry = self._kept.get(key)
        return None if entry is None else entry[0]

    def renew(self, key: Key) -> Value | None:
        """Return the value of a key, and make it the last one to be dropped."""
        entry = self._kept.pop(key, None)
        if entry is None:
            return None
        self._kept[key] = entry
        return entry[0]

    def put(self, key: Key, value: Value, size: int) -> None:
        """Keep a value; one that is larger than the cache is not kept."""
        if key in self._kept:
            self.drop(key)
        if size > self.bytes_max or not self.entries_max:
            return
        while self.bytes + size > self.bytes_max or len(self._kept) >= self.entries_max:
            self.drop(next(iter(self._kept)))
        self._kept[key] = value, size
        self.bytes += size

    def drop(self, key: Key) -> None:
        entry = self._kept.pop(key, None)
        if entry is not None:
            self.bytes -= entry[1]

    def clear(self) -> None:
        self._kept.clear()
        self.bytes = 0
