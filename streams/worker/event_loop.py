"""Keeps the event loop free for batches: limits background work and garbage collection.

**Time slices.** The event loop runs about twenty iterations per batch until the decisions are published. If
background work took a time slice in each iteration, it would delay all batches. So background work rests
longer than it works.

**Garbage collection.** Messages and state have no reference cycles, so reference counts are sufficient. A
full collection in a large cluster blocks decisions for a second, and collections during a recovery would
take half of its time.
"""

import asyncio
import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager

#: Longest time slice, in seconds.
SLICE_S = 0.002
#: Share of the time that background work takes.
BUSY_SHARE = 0.25
#: Longest rest, in seconds. A time slice is much longer than `SLICE_S` only if other processes used the core.
REST_MAX_S = 0.05

#: New objects before a collection of the youngest generation; Python's default is 700. A batch creates
#: thousands of short-lived objects: collections take 14 µs per decision at 1,000, and 5 µs at 20,000. A
#: collection of the youngest generation takes 15 ms, of the middle generation less than 0.1 s.
_YOUNGEST_OBJECTS = 20_000
_YOUNGEST_PER_MIDDLE = 5
#: Collections of the middle generation before a full collection, which takes a second in a large cluster.
_MIDDLE_PER_FULL = 20_000


class TimeSlice:
    """The time slices of one background task."""

    def __init__(self) -> None:
        self._began_s = time.perf_counter()

    @property
    def is_over(self) -> bool:
        """Whether the time slice is over: call `rest` before any further work."""
        return time.perf_counter() - self._began_s >= SLICE_S

    async def rest(self, *, hurry: bool = False) -> None:
        """Rest until the next time slice; with `hurry`, only for one iteration of the event loop."""
        worked_s = time.perf_counter() - self._began_s
        await asyncio.sleep(0 if hurry else min(worked_s * (1 / BUSY_SHARE - 1), REST_MAX_S))
        self._began_s = time.perf_counter()


def collect_garbage_rarely() -> None:
    gc.set_threshold(_YOUNGEST_OBJECTS, _YOUNGEST_PER_MIDDLE, _MIDDLE_PER_FULL)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Disable garbage collection in the block, and then exempt all existing objects from it.

    The next call collects exempt objects that became unused, such as connections with cycles.
    """
    gc.unfreeze()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
