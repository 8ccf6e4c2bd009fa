"""Keeps the event loop free for batches: background work in short turns, rare garbage collection.

**Turns.** A batch needs about twenty turns of the event loop until its decisions are published. If
background work took a turn at each of them, it would delay all batches. So background work rests longer
than it works.

**Garbage collection.** Messages and state have no reference cycles, so reference counts are sufficient. A
full collection in a large cluster takes a second in which nothing is decided, and collections during a
recovery would take half of its time.
"""

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: Longest turn, in seconds.
TURN_S = 0.002
#: Share of the time that background work takes.
SHARE = 0.25
#: Longest rest, in seconds. A turn can be long only because other processes used the core.
REST_MAX_S = 0.05

#: New objects before a collection of the youngest generation; Python's default is 700. A batch creates
#: thousands of short-lived objects: collections take 14 µs per decision at 1,000, and 5 µs at 20,000. One
#: of the youngest generation takes 15 ms, one of the middle generation less than 0.1 s.
_YOUNGEST = 20_000
_YOUNGEST_PER_MIDDLE = 5
#: Collections of the middle generation before a full one, which takes a second in a large cluster.
_MIDDLE_PER_ALL = 20_000


class Pace:
    """Limits the turns of one background task."""

    def __init__(self) -> None:
        self._began_s = time.perf_counter()

    @property
    def is_over(self) -> bool:
        """Whether the turn is over: call `rest` before any further work."""
        return time.perf_counter() - self._began_s >= TURN_S

    async def rest(self, *, hurry: bool = False) -> None:
        """Rest until the next turn; with `hurry`, for a single turn of the event loop."""
        worked_s = time.perf_counter() - self._began_s
        await asyncio.sleep(0 if hurry else min(worked_s * (1 / SHARE - 1), REST_MAX_S))
        self._began_s = time.perf_counter()


def collect_garbage_rarely() -> None:

    gc.set_threshold(_YOUNGEST, _YOUNGEST_PER_MIDDLE, _MIDDLE_PER_ALL)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection in the block, and exempt the objects that exist at its end forever.

    Unused objects of an earlier call, such as connections with cycles, are collected first.
    """
    gc.unfreeze()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
