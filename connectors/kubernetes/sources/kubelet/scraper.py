"""Polls many nodes once per interval, without one node delaying others.

Each node has a fixed moment within the interval, derived from its name. So polls are spread evenly, and
the time between two readings of a node hardly varies. A node that is due waits in a queue until fewer
polls are running; the node that has waited longest is next. A node that is due again while it waits or is
being polled is skipped. Nodes that failed have their own short queue, so that many dead nodes delay only
each other.

If more nodes are due than can be polled, each node is polled less often; the longest delay is reported.
"""

import asyncio
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable
from zlib import crc32

from connectors.kubernetes.sources.health import SourceHealth

#: Most concurrent polls of working nodes: even if a third of 5,000 nodes falls silent at once, with a timeout
#: of 5 s, the others are not delayed.
IN_FLIGHT_MAX = 1_024
#: Most concurrent polls of nodes that failed.
FAILING_MAX = 64
#: Time between two checks for nodes that are due, in seconds.
TICK_S = 0.05


class _Queue:
    """Waiting nodes, and the number of concurrent polls."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.running = 0
        self.waiting: dict[str, float] = {}
        """When each node was due, oldest first."""

    def pop(self) -> str | None:
        """Remove and return the node that has waited longest; None: none may start."""
        if not self.waiting or self.running >= self.limit:
            return None
        node = next(iter(self.waiting))
        del self.waiting[node]
        return node


class Scraper:
    def __init__(
        self,
        scrape: Callable[[str], Awaitable[None]],
        *,
        interval_s: float,
        health: SourceHealth,
        in_flight_max: int = IN_FLIGHT_MAX,
        failing_max: int = FAILING_MAX,
    ) -> None:
        """Args:
        scrape: polls one node; it has a time limit and raises nothing.
        interval_s: time between two polls of a node.
        health: knows the nodes that failed; counts skipped nodes, and has the delay of the oldest node.
        in_flight_max: most concurrent polls of working nodes.
        failing_max: most concurrent polls of nodes that failed.
        """
        self._scrape = scrape
        self._interval_s = interval_s
        self._health = health
        self._working, self._dead = _Queue(in_flight_max), _Queue(failing_max)
        self._polls: dict[str, asyncio.Task[None]] = {}
        self._moments: list[tuple[float, str]] = []
        """Moment of each node within the interval, from 0 to 1, in order."""

    def set_nodes(self, nodes: Iterable[str]) -> None:
        self._moments = sorted((crc32(node.encode()) / 2**32, node) for node in nodes)
        names = {node for _, node in self._moments}
        for queue in (self._working, self._dead):
            queue.waiting = {node: due for node, due in queue.waiting.items() if node in names}

    async def run(self, changed: Callable[[], Iterable[str] | None]) -> None:
        """Poll forever; `changed` returns all nodes if they have changed since the last check."""
        tick_s = min(TICK_S, self._interval_s / 10)
        last = time.monotonic()
        try:
            while True:
                await asyncio.sleep(tick_s)
                if (nodes := changed()) is not None:
                    self.set_nodes(nodes)
                now = time.monotonic()
                for node in self._list_due(last / self._interval_s, now / self._interval_s):
                    self._enqueue(node, now)
                self._start_polls()
                self._health.behind_s = now - next(iter(self._working.waiting.values()), now)
                last = now
        finally:
            self._working.limit = self._dead.limit = 0
            polls = list(self._polls.values())
            for poll in polls:
                poll.cancel()
            await asyncio.gather(*polls, return_exceptions=True)

    def _list_due(self, last: float, now: float) -> list[str]:
        """Return the nodes whose moment is after `last` and not after `now`, each once."""
        moments = self._moments
        if now - last >= 1:  # the event loop was blocked for longer than an interval
            return [node for _, node in moments]
        begin, end = last % 1.0, now % 1.0
        first = bisect_right(moments, (begin, "\uffff"))
        behind = bisect_right(moments, (end, "\uffff"))
        due = moments[first:behind] if begin <= end else moments[first:] + moments[:behind]
        return [node for _, node in due]

    def _enqueue(self, node: str, now_s: float) -> None:
        waiting = node in self._working.waiting or node in self._dead.waiting
        if waiting or node in self._polls:
            self._health.counts["skipped"] += 1
        else:
            queue = self._dead if self._health.is_failing(node) else self._working
            queue.waiting[node] = now_s

    def _start_polls(self) -> None:
        for queue in (self._working, self._dead):
            while (node := queue.pop()) is not None:
                queue.running += 1
                self._polls[node] = asyncio.create_task(self._poll(node, queue))

    async def _poll(self, node: str, queue: _Queue) -> None:
        try:
            await self._scrape(node)
        finally:
            queue.running -= 1
            del self._polls[node]
            self._start_polls()
