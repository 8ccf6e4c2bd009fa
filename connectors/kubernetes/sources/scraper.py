"""Asks many nodes in turn, each once an interval, without one delaying another.

Each node has its own moment within the interval, which depends on nothing but its name, so the
work is spread evenly and the time between two readings of a node hardly varies. A node that is
still being asked when its moment comes again is skipped, not queued. A node that failed is asked
through a few slots of its own: many dead nodes wait for each other and for nobody else.
"""

import asyncio
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable
from zlib import crc32

#: Nodes that work and are asked at once: a third of 5,000 may fall silent at the same moment, with
#: 5 s until each is given up, before the others notice.
IN_FLIGHT_MAX = 1_024
#: Nodes that failed and are asked at once.
FAILING_MAX = 64
#: From one look at whose moment has come to the next, in seconds.
TICK_S = 0.05


class Scraper:
    """Asks the nodes of one source."""

    def __init__(
        self,
        scrape: Callable[[str], Awaitable[None]],
        *,
        interval_s: float,
        failing: Callable[[str], bool],
        skipped: Callable[[str], None],
        in_flight_max: int = IN_FLIGHT_MAX,
        failing_max: int = FAILING_MAX,
    ) -> None:
        """`scrape` asks one node, keeps its own time limit and raises nothing; `failing`: the last
        attempt failed; `skipped` is called where a node's moment passes unused."""
        self._scrape = scrape
        self._interval_s = interval_s
        self._failing = failing
        self._skipped = skipped
        self._in_flight_max = in_flight_max
        self._failing_slots = asyncio.Semaphore(failing_max)
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._working = 0
        """Of those under way, how many hold none of the failing nodes' slots."""
        self._moments: list[tuple[float, str]] = []
        """Moment within the interval, from 0 to 1, of each node, in order."""

    def set_nodes(self, nodes: Iterable[str]) -> None:
        """These are all nodes."""
        self._moments = sorted((crc32(node.encode()) / 2**32, node) for node in nodes)

    async def run(self, changed: Callable[[], Iterable[str] | None]) -> None:
        """Ask for ever; `changed` says at each look which nodes there are, if that is new."""
        last = time.monotonic() / self._interval_s
        try:
            while True:
                await asyncio.sleep(min(TICK_S, self._interval_s / 10))
                if (nodes := changed()) is not None:
                    self.set_nodes(nodes)
                now = time.monotonic() / self._interval_s
                for node in self._due(last, now):
                    self._begin(node)
                last = now
        finally:
            under_way = list(self._under_way.values())
            for task in under_way:
                task.cancel()
            await asyncio.gather(*under_way, return_exceptions=True)

    def _due(self, last: float, now: float) -> list[str]:
        """Nodes whose moment lies after `last` and not after `now`, each once."""
        moments = self._moments
        if now - last >= 1:  # the loop was held up for longer than an interval
            return [node for _, node in moments]
        begin, end = last % 1.0, now % 1.0
        first = bisect_right(moments, (begin, "\uffff"))
        behind = bisect_right(moments, (end, "\uffff"))
        due = moments[first:behind] if begin <= end else moments[first:] + moments[:behind]
        return [node for _, node in due]

    def _begin(self, node: str) -> None:
        failing = self._failing(node)
        if node in self._under_way or (not failing and self._working >= self._in_flight_max):
            self._skipped(node)
            return
        self._working += not failing
        task = asyncio.create_task(self._ask(node, failing=failing))
        self._under_way[node] = task

    async def _ask(self, node: str, *, failing: bool) -> None:
        try:
            if failing:
                async with self._failing_slots:
                    await self._scrape(node)
            else:
                await self._scrape(node)
        finally:
            self._working -= not failing
            del self._under_way[node]
