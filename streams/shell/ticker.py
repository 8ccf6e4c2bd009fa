"""Writes the time into topic `clock`, for each partition that this worker owns.

The cluster stage's `now` is the time of the last tick applied, so this is the only wall clock that
decisions see, and a replay sees the same one. Ticks never go back: a clock that is set back stands
still in the log until it has caught up.
"""

import asyncio
import time
from collections.abc import Collection
from typing import Any

from schemas.clock import ClockTick
from schemas.codec import encode
from streams.records import OutputRecord
from streams.shell.publisher import Publisher

CLOCK_TOPIC = "clock"


class Ticker:
    """Ticks while it runs."""

    def __init__(self, publisher: Publisher, interval_s: float) -> None:
        self._publisher = publisher
        self._interval_s = interval_s
        self._last_ms = 0

    async def run(self, app: Any, stages: Collection[int]) -> None:
        """Tick for the partitions in `stages`, as they are at each tick, until cancelled."""
        await self._publisher.start()
        while not app.should_stop:
            self._last_ms = max(self._last_ms, time.time_ns() // 1_000_000)
            await self._publisher.publish([tick(each, self._last_ms) for each in sorted(stages)])
            await asyncio.sleep(self._interval_s)


def tick(partition: int, now_ms: int) -> OutputRecord:
    """The record that says what time it is in a partition."""
    return OutputRecord(
        topic=CLOCK_TOPIC,
        key=str(partition),
        value=encode(ClockTick(partition=partition, now_ms=now_ms)),
        timestamp_ms=now_ms,
        partition=partition,
    )
