"""Collects the records of a Faust stream into batches.

A batch is complete at a number of records, at a number of bytes, or after a time. Its messages are
acknowledged when their effects are durable (Faust's own `take` acknowledges earlier, and forbids table
writes).

Every batch costs a journal record and two round trips to the broker. So records of patient topics, which
need no quick answer, wait longer. They are applied together with the next urgent record.

Records fetched before a rebalance are dropped: their owner receives them again.
"""

import asyncio
from collections import deque
from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from streams.stage.records import InputRecord


@dataclass(frozen=True, slots=True)
class BatchLimits:
    """A batch is complete at the first of these limits."""

    records: int = 500
    bytes: int = 1024 * 1024
    """Size of keys and values."""
    wait_s: float = 0.004
    """Longest time that an urgent record waits for further records."""
    patience_s: float = 0.05
    """Longest time that a record of a patient topic waits, at least `wait_s`."""


@dataclass(slots=True)
class Batch:
    records: list[InputRecord] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)
    """Events with a message that ends in this batch."""
    empty: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """Offsets without a record, as in `EmptyOffsets`."""

    def acknowledge(self) -> None:
        """Let Faust commit the offsets."""
        for event in self.events:
            event.ack()


class _Waiting(NamedTuple):
    record: InputRecord | None
    """None: the message has no records."""
    size: int
    event: Any
    is_last: bool
    """Whether the record is the last one of the event's message."""


class Batches:
    """Collects records; `collect` and `take` run in two tasks."""

    def __init__(
        self, app: Any, limits: BatchLimits, patient: Collection[str] = frozenset()
    ) -> None:
        """`patient` are topics whose records need no quick answer."""
        self._app = app
        self._limits = limits
        self._patience_s = max(limits.wait_s, limits.patience_s)
        self._patient = patient
        self._urgent = 0
        """Number of waiting records of topics that are not patient."""
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._is_held = True
        self._has_waiting = asyncio.Event()
        self._is_due = asyncio.Event()
        """Set if the batch is complete, or if an urgent record waits."""
        self._is_complete = asyncio.Event()
        self._has_room = asyncio.Event()
        self._has_room.set()

    async def collect(self, stream: Any) -> None:
        """Collect the events of a stream; wait while a batch is complete."""
        async for event in stream.noack().events():
            await self._has_room.wait()
            self._add(event)

    async def take(self) -> Batch:
        """Return the next batch, with at least one record or one end of a message."""
        while True:
            await self._has_waiting.wait()
            await self._wait_until_complete()
            batch = self._build_batch()
            if batch.records or batch.events:
                return batch

    async def _wait_until_complete(self) -> None:
        """Wait until the batch is complete, or a record has waited for the longest time."""
        with suppress(TimeoutError):
            if not self._is_due.is_set():
                async with asyncio.timeout(self._patience_s):
                    await self._is_due.wait()
            if not self._is_complete.is_set():
                async with asyncio.timeout(self._limits.wait_s):
                    await self._is_complete.wait()

    def hold(self) -> None:
        """Drop records at the start of a rebalance, until `release`."""
        self._is_held = True
        self._clear()

    def release(self) -> None:
        """Collect records again when the state of the partitions is ready."""
        self._is_held = False
        self._clear()

    def _add(self, event: Any) -> None:
        if self._is_held:
            return
        records = event.message.records
        for number, record in enumerate(records, start=1):
            size = len(record.key or b"") + len(record.value or b"")
            self._waiting.append(_Waiting(record, size, event, number == len(records)))
            self._bytes += size
            self._urgent += record.topic not in self._patient
        if not records:
            self._waiting.append(_Waiting(None, 0, event, is_last=True))
        self._update_events()

    def _build_batch(self) -> Batch:
        batch = Batch()
        size = 0
        generation = self._app.consumer_generation_id
        message: Any = None
        while (
            self._waiting
            and len(batch.records) < self._limits.records
            and size < self._limits.bytes
        ):
            waiting = self._waiting.popleft()
            record = waiting.record
            self._bytes -= waiting.size
            self._urgent -= record is not None and record.topic not in self._patient
            if waiting.event.message.generation_id != generation:
                continue
            if message is not waiting.event.message:
                message = waiting.event.message
                batch.empty.update(message.empty)
            if record is not None:
                batch.records.append(record)
            size += waiting.size
            if waiting.is_last:
                batch.events.append(waiting.event)
        self._update_events()
        return batch

    def _clear(self) -> None:
        self._waiting.clear()
        self._bytes = self._urgent = 0
        self._update_events()

    def _update_events(self) -> None:
        _set_event(self._has_waiting, bool(self._waiting))
        complete = len(self._waiting) >= self._limits.records or self._bytes >= self._limits.bytes
        _set_event(self._is_complete, complete)
        _set_event(self._is_due, complete or self._urgent > 0)
        _set_event(self._has_room, not complete)


def _set_event(event: asyncio.Event, state: bool) -> None:
    if state:
        event.set()
    else:
        event.clear()
