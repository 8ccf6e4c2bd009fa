"""Deadlines by name, and lengths of waits that double."""

import heapq

#: Most stale entries of the heap, beyond the number of names.
_SLACK = 64


class Deadlines:
    """Times at which the caller must check a name.

    The caller then checks its state, so a deadline that is too early is harmless.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, str]] = []
        self._newest: dict[str, int] = {}
        """The current deadline of each name; other entries of the heap are stale."""

    def __len__(self) -> int:
        """Number of entries, including stale ones."""
        return len(self._entries)

    def set(self, at_ms: int, name: str) -> None:
        """Set the deadline of a name, in place of its previous deadline."""
        self._newest[name] = at_ms
        heapq.heappush(self._entries, (at_ms, name))
        if len(self._entries) > 2 * len(self._newest) + _SLACK:
            self._entries = [(at_ms, name) for name, at_ms in self._newest.items()]
            heapq.heapify(self._entries)

    def pop_due(self, now_ms: int) -> list[str]:
        """Remove and return the names whose deadline has passed, sorted."""
        due = []
        while self._entries and self._entries[0][0] <= now_ms:
            at_ms, name = heapq.heappop(self._entries)
            if self._newest.get(name) == at_ms:
                del self._newest[name]
                due.append(name)
        return sorted(due)

    def drop(self, name: str) -> None:
        self._newest.pop(name, None)

    def clear(self) -> None:
        self._entries.clear()
        self._newest.clear()


def compute_wait_ms(first_s: int, max_s: int, number: int) -> int:
    """Return the length of a wait by its number, from 1. Waits double up to `max_s`."""
    return int(min(first_s * 2 ** min(max(number, 1) - 1, 40), max_s)) * 1000


def ceil_seconds(duration_ms: int) -> int:
    """Return a remaining time in seconds, rounded up so that reports do not say 0."""
    return -(-duration_ms // 1000)
