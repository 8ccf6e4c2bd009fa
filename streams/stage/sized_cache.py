"""A cache with a bound in bytes: what can be worked out again is kept only as long as there is
room.

A bound on entries alone is none: what users write decides how large an entry is. The caller that
puts a value in says how many bytes it holds alive, key included; an estimate that is too high costs
a little work, one that is too low memory.
"""

from collections.abc import Hashable
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Value = TypeVar("Value")


class SizedCache(Generic[Key, Value]):
    """Values by key, bounded in number and in bytes; the one renewed longest ago goes first."""

    def __init__(self, bytes_max: int, entries_max: int) -> None:
        """Start empty.

        Args:
            bytes_max: most bytes of all values; one that has more by itself is not kept.
            entries_max: most values.
        """
        self.bytes_max = bytes_max
        self.entries_max = entries_max
        self.bytes = 0
        """Of all values, as those who put them in have said."""
        self._kept: dict[Key, tuple[Value, int]] = {}

    def __len__(self) -> int:
        return len(self._kept)

    def get(self, key: Key) -> Value | None:
        """The value of a key, if it is kept."""
        found = self._kept.get(key)
        return None if found is None else found[0]

    def renew(self, key: Key) -> Value | None:
        """The value of a key, if it is kept; it goes last from now on."""
        found = self._kept.pop(key, None)
        if found is None:
            return None
        self._kept[key] = found
        return found[0]

    def put(self, key: Key, value: Value, size: int) -> None:
        """Keep a value of this size in bytes, in place of an older one of its key."""
        if key in self._kept:
            self.drop(key)
        if size > self.bytes_max or not self.entries_max:
            return
        while self.bytes + size > self.bytes_max or len(self._kept) >= self.entries_max:
            self.drop(next(iter(self._kept)))
        self._kept[key] = value, size
        self.bytes += size

    def drop(self, key: Key) -> None:
        """Forget a value."""
        found = self._kept.pop(key, None)
        if found is not None:
            self.bytes -= found[1]

    def clear(self) -> None:
        """Forget all values."""
        self._kept.clear()
        self.bytes = 0
