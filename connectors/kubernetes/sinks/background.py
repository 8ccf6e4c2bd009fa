"""Optional writes, such as Events: information for users.

A write has a key, and a newer write with the same key replaces it. Writes are sent in the order in which
their keys arrived: rate-limited, a few concurrently, and one per key at a time. A failed write is counted
and not repeated. Beyond a limit, writes are dropped and counted. No command waits for them.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from connectors.kubernetes.api.errors import AccessError, ApiError, ApiUnreachable

logger = logging.getLogger(__name__)

#: Most concurrent writes: few, because bindings use the same API server.
AT_ONCE = 4
#: Writes that start without a pause after an idle time.
BURST = 50
#: How long `close` waits for current writes, in seconds.
CLOSE_S = 5.0

Write = Callable[[], Awaitable[None]]


class Background:
    """A rate-limited queue of writes."""

    def __init__(self, per_s: float, waiting_max: int) -> None:
        """`per_s` writes are started per second, and at most `waiting_max` wait."""
        self.written = 0
        self.failed = 0
        self.dropped = 0
        """Writes beyond the limit, or still waiting at the end."""
        self._interval_s = 1 / per_s
        self._waiting_max = waiting_max
        self._waiting: dict[str, Write] = {}
        self._under_way: set[str] = set()
        self._workers: set[asyncio.Task[None]] = set()
        self._next_s = 0.0

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, key: str, write: Write, *, room: int | None = None) -> bool:
        """Queue a write; False: dropped, because `room` (default: `waiting_max`) writes wait."""
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
        self._waiting.pop(key, None)

    async def close(self) -> None:
        """Drop waiting writes, and wait a moment for current ones."""
        self.dropped += len(self._waiting)
        self._waiting.clear()
        if self._workers:
            _, late = await asyncio.wait(self._workers, timeout=CLOSE_S)
            for worker in late:
                worker.cancel()

    async def _work(self) -> None:
        while self._waiting:
            await self._pace()
            key = next((name for name in self._waiting if name not in self._under_way), None)
            if key is None:
                return  # the worker that writes this key continues
            write = self._waiting.pop(key)
            self._under_way.add(key)
            try:
                await write()
                self.written += 1
            except (ApiError, ApiUnreachable, AccessError) as error:
                self.failed += 1
                logger.info("a write was dropped: %s", error)
            finally:
                self._under_way.discard(key)

    async def _pace(self) -> None:
        now_s = time.monotonic()
        turn_s = max(self._next_s, now_s - BURST * self._interval_s)
        self._next_s = turn_s + self._interval_s
        if turn_s > now_s:
            await asyncio.sleep(turn_s - now_s)
