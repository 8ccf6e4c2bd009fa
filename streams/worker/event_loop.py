"""Keeps the event loop free for batches: background work in short turns, rare garbage collection.

**Turns.** A batch passes through the event loop some twenty times before its decisions are
published. Background work that takes a turn at each of these times, however short, delays all
batches. So between two turns the work rests for longer than it worked. A busy machine makes turns
and rests longer; the duration of the whole work is not guaranteed.

**Garbage collection.** Messages and state are trees, for which reference counts are enough. Looking
through the million objects of a large cluster for cycles takes a second in which nothing is
decided. While a cluster is built from its rows this happens again and again, and takes half of the
time of a recovery.
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
#: Longest rest, in seconds. A turn in which the process had no core says nothing about the work.
REST_MAX_S = 0.05

#: New objects before a collection of the youngest; Python's own figure is 700. A batch makes some
#: thousands of objects and drops them again, and a collection below this figure would visit them:
#: 14 µs of a decision's CPU time at 1,000, 5 µs at 20,000. A collection of this many takes 15 ms, one
#: of the middle generation less than 0.1 s.
_YOUNGEST = 20_000
_YOUNGEST_PER_MIDDLE = 5
#: Collections of the middle generation before a full one, which takes a second in a large cluster.
_MIDDLE_PER_ALL = 20_000


class Pace:
    """Measures turns; one for each stretch of work."""

    def __init__(self) -> None:
        self._began_s = time.perf_counter()

    @property
    def is_over(self) -> bool:
        """The turn is over: call `rest` before anything else."""
        return time.perf_counter() - self._began_s >= TURN_S

    async def rest(self, *, hurry: bool = False) -> None:
        """Leave the loop to the batches; with `hurry` they have one turn, and work continues."""
        worked_s = time.perf_counter() - self._began_s
        await asyncio.sleep(0 if hurry else min(worked_s * (1 / SHARE - 1), REST_MAX_S))
        self._began_s = time.perf_counter()


def collect_garbage_rarely() -> None:
    """Set the thresholds of garbage collection; for the start of a worker."""
    gc.set_threshold(_YOUNGEST, _YOUNGEST_PER_MIDDLE, _MIDDLE_PER_ALL)


@contextmanager
def without_garbage_collection() -> Iterator[None]:
    """Exempt the objects that exist at the end from garbage collection, now and later.

    Objects of an earlier call that are no longer needed, such as connections, are collected first:
    they may have cycles, unlike the state of partitions.
    """
    gc.unfreeze()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()
