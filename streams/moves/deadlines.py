"""When to look at what again, and waits that double."""

import heapq


class Deadlines:
    """Names and the times at which to look at them; a name may have several.

    It only says when to look. The caller decides by its own state, so entries that are out of date
    do no harm, and a set of deadlines that is made anew from rows causes the same.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, str]] = []

    def expect(self, at_ms: int, name: str) -> None:
        """Look at it then."""
        heapq.heappush(self._entries, (at_ms, name))

    def due(self, now_ms: int) -> list[str]:
        """What is to be looked at now, each name once, in order of names."""
        if not self._entries or self._entries[0][0] > now_ms:
            return []
        found: dict[str, None] = {}
        while self._entries and self._entries[0][0] <= now_ms:
            found[heapq.heappop(self._entries)[1]] = None
        return sorted(found)

    def clear(self) -> None:
        """Expect nothing."""
        self._entries.clear()


def doubling_ms(first_s: int, most_s: int, times: int) -> int:
    """Length of the wait number `times`, counted from 1."""
    return int(min(first_s * 2 ** min(max(times, 1) - 1, 40), most_s)) * 1000


def seconds(duration_ms: int) -> int:
    """Whole seconds, rounded up: what is not over yet is never reported as 0."""
    return -(-duration_ms // 1000)
