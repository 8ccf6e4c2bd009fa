"""Asks many nodes in turn, each once an interval, without one delaying another.

Each node has its own moment within the interval, which depends on nothing but its name, so the work
is spread evenly and the time between two readings of a node hardly varies. A node whose moment has
come waits in a lane, at most once, until a place is free; who waits longest is next. A node that
waits or is still being asked when its moment comes again is skipped. A node that failed has a lane
with few places: many dead nodes wait for each other alone.

Where more nodes are due than can be asked, each is asked less often, in turn, and how late the
oldest one is says how far behind that is. So that answers are still read in time then, fewer are
asked at once as soon as the event loop itself is late, and more again while it is not.
"""

import asyncio
import time
from bisect import bisect_right
from collections.abc import Awaitable, Callable, Iterable
from zlib import crc32

#: Nodes that work and are asked at once: a third of 5,000 may fall silent at the same moment, with
#: 5 s until each is given up, before the others notice.
IN_FLIGHT_MAX = 1_024
#: Of these, how many are asked at once however late the event loop is: about 50 ms of work.
IN_FLIGHT_MIN = 64
#: Nodes that failed and are asked at once.
FAILING_MAX = 64
#: From one look at whose moment has come to the next, in seconds.
TICK_S = 0.05
#: A look that comes later than this says that the event loop has more to do than it can, in seconds.
LATE_S = 0.1
#: How many more are asked at once after each look that came in time.
MORE = 8


class _Lane:
    """Nodes that wait for a place, and how many have one."""

    def __init__(self, places: int) -> None:
        self.places = places
        self.taken = 0
        self.waiting: dict[str, float] = {}
        """When each was due, oldest first."""

    def next(self) -> str | None:
        """The node that has waited longest and may begin now; none: no node may."""
        if not self.waiting or self.taken >= self.places:
            return None
        node = next(iter(self.waiting))
        del self.waiting[node]
        return node


class Scraper:
    """Asks the nodes of one source."""

    def __init__(
        self,
        scrape: Callable[[str], Awaitable[None]],
        *,
        interval_s: float,
        failing: Callable[[str], bool],
        skipped: Callable[[str], None],
        behind: Callable[[float], None],
        in_flight_max: int = IN_FLIGHT_MAX,
        failing_max: int = FAILING_MAX,
    ) -> None:
        """`scrape` asks one node, keeps its own time limit and raises nothing; `failing`: the last
        attempt failed; `skipped` is called where a node's moment passes unused, and `behind` at each
        look with the seconds for which the oldest node that works has waited for a place."""
        self._scrape = scrape
        self._interval_s = interval_s
        self._failing = failing
        self._skipped = skipped
        self._behind = behind
        self._in_flight_max = in_flight_max
        self._working, self._dead = _Lane(in_flight_max), _Lane(failing_max)
        self._under_way: dict[str, asyncio.Task[None]] = {}
        self._moments: list[tuple[float, str]] = []
        """Moment within the interval, from 0 to 1, of each node, in order."""

    def set_nodes(self, nodes: Iterable[str]) -> None:
        """These are all nodes."""
        self._moments = sorted((crc32(node.encode()) / 2**32, node) for node in nodes)
        there = {node for _, node in self._moments}
        for lane in (self._working, self._dead):
            lane.waiting = {node: due for node, due in lane.waiting.items() if node in there}

    async def run(self, changed: Callable[[], Iterable[str] | None]) -> None:
        """Ask for ever; `changed` says at each look which nodes there are, if that is new."""
        tick_s = min(TICK_S, self._interval_s / 10)
        last = time.monotonic()
        try:
            while True:
                await asyncio.sleep(tick_s)
                if (nodes := changed()) is not None:
                    self.set_nodes(nodes)
                now = time.monotonic()
                self._adapt(late_s=now - last - tick_s)
                for node in self._due(last / self._interval_s, now / self._interval_s):
                    self._queue(node, now)
                self._begin()
                self._behind(now - next(iter(self._working.waiting.values()), now))
                last = now
        finally:
            self._working.places = self._dead.places = 0
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

    def _adapt(self, *, late_s: float) -> None:
        lane = self._working
        if late_s <= LATE_S:
            lane.places = min(lane.places + MORE, self._in_flight_max)
        else:
            fewer = min(lane.places, lane.taken) * 3 // 4
            lane.places = min(max(fewer, IN_FLIGHT_MIN), self._in_flight_max)

    def _queue(self, node: str, now_s: float) -> None:
        waiting = node in self._working.waiting or node in self._dead.waiting
        if waiting or node in self._under_way:
            self._skipped(node)
        else:
            lane = self._dead if self._failing(node) else self._working
            lane.waiting[node] = now_s

    def _begin(self) -> None:
        for lane in (self._working, self._dead):
            while (node := lane.next()) is not None:
                lane.taken += 1
                self._under_way[node] = asyncio.create_task(self._ask(node, lane))

    async def _ask(self, node: str, lane: _Lane) -> None:
        try:
            await self._scrape(node)
        finally:
            lane.taken -= 1
            del self._under_way[node]
            self._begin()
