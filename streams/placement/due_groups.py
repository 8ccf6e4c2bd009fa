"""The groups that one tick tries, each in its turn (`PendingRequests.due` says which these are)."""

import heapq

from streams.placement.pending import Group, PendingRequests, Waiting


class DueGroups:
    """Groups to try now: the one with the first request in priority and arrival first."""

    def __init__(
        self, pending: PendingRequests, now_ms: int, version: int, backoff_max_ms: int
    ) -> None:
        """Find them; the arguments are those of `PendingRequests.due`."""
        self._pending = pending
        self._queue: list[tuple[tuple[int, ...], Waiting, Group]] = [
            (waiting.rank, waiting, group)
            for waiting, group in pending.due(now_ms, version, backoff_max_ms)
        ]
        heapq.heapify(self._queue)
        self._round: int | None = None
        """Of those that are due longest: how often all before have had their turn. None: by rank."""

    def __bool__(self) -> bool:
        return bool(self._queue)

    def longest_due_first(self) -> None:
        """Go on with the group that has been due longest, one request of each in turn."""
        if self._round is None:
            self._round = 0
            self._queue = [
                ((0, group.retry_at_ms, *waiting.rank), waiting, group)
                for _, waiting, group in self._queue
            ]
            heapq.heapify(self._queue)

    def take(self) -> tuple[Waiting, Group]:
        """The next group, and its first request."""
        order, waiting, group = heapq.heappop(self._queue)
        if self._round is not None:
            self._round = order[0]
        return waiting, group

    def put_back(self, group: Group) -> None:
        """A request of the group taken last has been placed; the group may have another one."""
        waiting = self._pending.next_of(group)
        if waiting is None:
            return
        order: tuple[int, ...] = waiting.rank
        if self._round is not None:
            order = (self._round + 1, group.retry_at_ms, *order)
        heapq.heappush(self._queue, (order, waiting, group))
