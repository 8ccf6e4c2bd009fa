"""When to look at what again, and waits that double."""

import heapq

#: Entries that no longer count which the heap may hold beyond its size.
_SLACK = 64


class Deadlines:
    """Names and the time at which to look at each.

    It only says when to look. The caller decides by its own state, so entries that are out of date
    do no harm, and a set of deadlines that is made anew from rows causes the same.
    """

    def __init__(self) -> None:
        self._entries: list[tuple[int, str]] = []
        self._newest: dict[str, int] = {}
        """The entry of each name that counts."""

    def __len__(self) -> int:
        """How many entries there are, those that no longer count among them."""
        return len(self._entries)

    def expect(self, at_ms: int, name: str) -> None:
        """Look at it then, and no more at a time that was named before."""
        self._newest[name] = at_ms
        heapq.heappush(self._entries, (at_ms, name))
        if len(self._entries) > 2 * len(self._newest) + _SLACK:
            self._entries = [(at_ms, name) for name, at_ms in self._newest.items()]
            heapq.heapify(self._entries)

    def due(self, now_ms: int) -> list[str]:
        """What is to be looked at now, each name once, in order of names."""
        if not self._entries or self._entries[0][0] > now_ms:
            return []
        found: dict[str, None] = {}
        while self._entries and self._entries[0][0] <= now_ms:
            at_ms, name = heapq.heappop(self._entries)
            if self._newest.get(name) == at_ms:
                del self._newest[name]
                found[name] = None
        return sorted(found)

    def forget(self, name: str) -> None:
        """Expect nothing of a name."""
        self._newest.pop(name, None)

    def earliest(self) -> str:
        """The name whose time is first, of equal ones the first by name; there must be one."""
        while self._newest.get(self._entries[0][1]) != self._entries[0][0]:
            heapq.heappop(self._entries)
        return self._entries[0][1]

    def clear(self) -> None:
        """Expect nothing."""
        self._entries.clear()
        self._newest.clear()


def doubling_ms(first_s: int, most_s: int, times: int) -> int:
    """Length of the wait number `times`, counted from 1."""
    return int(min(first_s * 2 ** min(max(times, 1) - 1, 40), most_s)) * 1000


def seconds(duration_ms: int) -> int:
    """Whole seconds, rounded up: what is not over yet is never reported as 0."""
    return -(-duration_ms // 1000)
