"""Batches of records from a Faust stream of parcels, unacknowledged.

Faust's own `take` acknowledges by itself and forbids table writes. Here the records of a stream's
parcels are collected until there are enough of them, or enough bytes, or the first one has waited
long enough; they are handed out in the order of their partitions' logs, and their parcels are
acknowledged by the code that has made their effects durable. A batch costs a journal record and two
trips to the broker however small it is. So records that need no quick answer wait longer, until one
comes that does: it meets the newest state all the same, and one batch is enough for all. Records
that were fetched before a rebalance are not handed out after it: they may belong to another worker
now, and to this one they come again.
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
    """When a batch is complete; the first limit that is reached counts."""

    records: int = 500
    """Most records in a batch."""
    bytes: int = 1024 * 1024
    """Batch size, in bytes of keys and values, that is not added to any more."""
    wait_s: float = 0.004
    """Longest time that a record waits for others, in seconds."""
    patience_s: float = 0.05
    """The same of a record of a patient topic, while there are no others; `wait_s` if that is
    longer."""


@dataclass(slots=True)
class Batch:
    """What is put through together."""

    records: list[InputRecord] = field(default_factory=list)
    ended: list[Any] = field(default_factory=list)
    """Events whose parcels end in this batch: to be acknowledged when it is durable."""
    empty: dict[tuple[str, int, int], int] = field(default_factory=dict)
    """Offsets without a record in the parcels, as in `EmptyOffsets`."""

    def acknowledge(self) -> None:
        """Let Faust commit the offsets of what was taken in."""
        for event in self.ended:
            event.ack()


class _Waiting(NamedTuple):
    record: InputRecord | None
    """None: the parcel holds offsets without a record only."""
    size: int
    event: Any
    last: bool
    """The last record of the event's parcel."""


class Batches:
    """Collects records; `pump` and `take` run in two tasks of one event loop."""

    def __init__(
        self, app: Any, limits: BatchLimits, patient: Collection[str] = frozenset()
    ) -> None:
        """`patient` are topics whose records need no quick answer."""
        self._app = app
        self._limits = limits
        self._patience_s = max(limits.wait_s, limits.patience_s)
        self._patient = patient
        self._prompt = 0
        """How many of those that wait are of other topics."""
        self._waiting: deque[_Waiting] = deque()
        self._bytes = 0
        self._held = True
        self._some = asyncio.Event()
        self._hurried = asyncio.Event()
        """A batch is complete, or one of its records needs a quick answer."""
        self._full = asyncio.Event()
        self._room = asyncio.Event()

    async def pump(self, stream: Any) -> None:
        """Collect the events of a stream until it ends; waits while a batch is complete."""
        async for event in stream.noack().events():
            while self._full.is_set():
                self._room.clear()
                await self._room.wait()
            self._add(event)

    async def take(self) -> Batch:
        """The next batch: one record, or one end of a parcel, or more."""
        while True:
            await self._some.wait()
            await self._collected()
            batch = self._hand_out()
            if batch.records or batch.ended:
                return batch

    async def _collected(self) -> None:
        """Returns when the batch is complete, or a record has waited long enough."""
        with suppress(TimeoutError):
            if not self._hurried.is_set():
                async with asyncio.timeout(self._patience_s):
                    await self._hurried.wait()
            if not self._full.is_set():
                async with asyncio.timeout(self._limits.wait_s):
                    await self._full.wait()

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
        records = event.message.records
        for number, record in enumerate(records, start=1):
            size = len(record.key or b"") + len(record.value or b"")
            self._waiting.append(_Waiting(record, size, event, number == len(records)))
            self._bytes += size
            self._prompt += record.topic not in self._patient
        if not records:
            self._waiting.append(_Waiting(None, 0, event, last=True))
        self._judge()

    def _hand_out(self) -> Batch:
        batch = Batch()
        size = 0
        generation = self._app.consumer_generation_id
        parcel: Any = None
        while (
            self._waiting
            and len(batch.records) < self._limits.records
            and size < self._limits.bytes
        ):
            waiting = self._waiting.popleft()
            record = waiting.record
            self._bytes -= waiting.size
            self._prompt -= record is not None and record.topic not in self._patient
            if waiting.event.message.generation_id != generation:
                continue
            if parcel is not waiting.event.message:
                parcel = waiting.event.message
                batch.empty.update(parcel.empty)
            if record is not None:
                batch.records.append(record)
            size += waiting.size
            if waiting.last:
                batch.ended.append(waiting.event)
        self._judge()
        return batch

    def _empty(self) -> None:
        self._waiting.clear()
        self._bytes = self._prompt = 0
        self._judge()

    def _judge(self) -> None:
        _set(self._some, bool(self._waiting))
        full = len(self._waiting) >= self._limits.records or self._bytes >= self._limits.bytes
        _set(self._full, full)
        _set(self._hurried, full or self._prompt > 0)
        if not full:
            self._room.set()


def _set(event: asyncio.Event, state: bool) -> None:
    if state:
        event.set()
    else:
        event.clear()
