"""Batches of events from a Faust stream, unacknowledged.

Faust's own `take` acknowledges by itself and forbids table writes. Here the events of a stream are
collected until there are enough of them, or enough bytes, or the first one has waited long enough; they
are handed out in the order of their partitions' logs and acknowledged by whoever has made their effects
durable. Events that were fetched before a rebalance are not handed out after it: they may belong to
another worker now, and to this one they come again.
"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """When a batch is complete; the first limit that is reached counts."""

    records: int = 500
    """Most records in a batch."""
    bytes: int = 1024 * 1024
    """Batch size, in bytes of keys and values, that is not added to any more."""
    wait_s: float = 0.004
    """Longest time that a record waits for others, in seconds."""


class Batches:
    """Collects events; `pump` and `take` run in two tasks of one event loop."""

    def __init__(self, app: Any, limits: BatchLimits) -> None:
        self._app = app
        self._limits = limits
        self._events: list[Any] = []
        self._bytes = 0
        self._held = True
        self._some = asyncio.Event()
        self._full = asyncio.Event()
        self._room = asyncio.Event()

    async def pump(self, stream: Any) -> None:
        """Collect the events of a stream until it ends; waits while a batch is complete."""
        async for event in stream.noack().events():
            while self._full.is_set():
                self._room.clear()
                await self._room.wait()
            self._add(event)

    async def take(self) -> list[Any]:
        """The next batch: one event or more."""
        while True:
            await self._some.wait()
            if not self._full.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._full.wait(), self._limits.wait_s)
            events = self._hand_out()
            if events:
                return events

    def hold(self) -> None:
        """Forget what is collected and hand out nothing until `release`: a rebalance is under way."""
        self._held = True
        self._empty()

    def release(self) -> None:
        """Hand out batches (again): the state that they are applied to is there."""
        self._held = False
        self._empty()

    def _add(self, event: Any) -> None:
        if self._held:
            return  # fetched before the rebalance; it comes again, to this worker or another
        self._events.append(event)
        self._bytes += len(event.message.key or b"") + len(event.message.value or b"")
        self._some.set()
        if len(self._events) >= self._limits.records or self._bytes >= self._limits.bytes:
            self._full.set()

    def _hand_out(self) -> list[Any]:
        events = self._events
        self._empty()
        generation = self._app.consumer_generation_id
        return [event for event in events if event.message.generation_id == generation]

    def _empty(self) -> None:
        self._events, self._bytes = [], 0
        self._some.clear()
        self._full.clear()
        self._room.set()
