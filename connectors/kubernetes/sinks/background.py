"""Writes that may wait: what users read about pods, beside the bindings and evictions themselves.

A write has a key; a newer one of the same key takes its place. They are sent in the order of their
keys' arrival, paced, a few at once, and never two of one key. One that fails is counted and not
repeated, and beyond a limit they are dropped and counted. No command waits for them.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable

logger = logging.getLogger(__name__)

#: Writes under way at once: few, since bindings share the API server with them.
AT_ONCE = 4
#: After a time without writes, this number goes without a pause.
BURST = 50
#: Time for which `close` waits for writes that are under way, in seconds.
CLOSE_S = 5.0

Write = Callable[[], Awaitable[None]]


class Background:
    """A paced queue of writes."""

    def __init__(self, per_s: float, waiting_max: int) -> None:
        """`per_s` writes are begun a second, and at most `waiting_max` wait."""
        self.written = 0
        self.failed = 0
        self.dropped = 0
        """Writes that found no room."""
        self._interval_s = 1 / per_s
        self._waiting_max = waiting_max
        self._waiting: dict[str, Write] = {}
        self._under_way: set[str] = set()
        self._workers: set[asyncio.Task[None]] = set()
        self._next_s = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, key: str, write: Write, *, room: int | None = None) -> bool:
        """Write later; False: there is no room, by default of `waiting_max`."""
        if key not in self._waiting and len(self._waiting) >= (room or self._waiting_max):
            self.dropped += 1
            return False
        self._waiting[key] = write
        if len(self._workers) < AT_ONCE:
            worker = asyncio.create_task(self._work())
            self._workers.add(worker)
            worker.add_done_callback(self._workers.discard)
        return True

    def forget(self, key: str) -> None:
        """Do not write it, if it still waits."""
        self._waiting.pop(key, None)

    async def close(self) -> None:
        """Drop what waits; what is under way gets a moment."""
        self.dropped += len(self._waiting)
        self._waiting.clear()
        if self._workers:
            _, late = await asyncio.wait(self._workers, timeout=CLOSE_S)
            for worker in late:
                worker.cancel()

    async def _work(self) -> None:
        while self._waiting:
            await self._pace()
            key = next((each for each in self._waiting if each not in self._under_way), None)
            if key is None:
                return  # who writes that key goes on with it
            write = self._waiting.pop(key)
            self._under_way.add(key)
            try:
                await write()
                self.written += 1
            except (ApiError, ApiUnreachable, AccessError) as error:
                self.failed += 1
                logger.info("not written: %s", error)
            finally:
                self._under_way.discard(key)

    async def _pace(self) -> None:
        now_s = time.monotonic()
        turn_s = max(self._next_s, now_s - BURST * self._interval_s)
        self._next_s = turn_s + self._interval_s
        if turn_s > now_s:
            await asyncio.sleep(turn_s - now_s)
