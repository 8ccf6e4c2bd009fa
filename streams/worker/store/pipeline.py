"""Makes applied batches durable in order, in two steps: journal, then outputs.

The steps overlap: while the outputs of a batch are published, the next batch is written to the journal,
and a third batch is applied to the state in memory. A batch is reported and acknowledged after all earlier
batches. If a batch cannot be made durable, the pipeline ends, and later batches are dropped.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from streams.stage.journal import JournalPosition
from streams.stage.records import AppliedBatch, RowChange
from streams.worker.store.journal_first import JournalFirst
from streams.worker.store.writethrough import WriteThrough

#: Time between two checks whether rows are due, in seconds.
_FLUSH_CHECK_S = 0.25
#: Most applied batches that wait to be written to the journal.
AHEAD_MAX = 1


class StageEnded(RuntimeError):
    """The pipeline has ended, because the worker stops or a batch has failed."""


@dataclass(frozen=True, slots=True)
class PendingBatch:
    """Applied batches, at most one per partition, that are not durable yet."""

    batches: list[AppliedBatch]
    began_s: float
    on_durable: Callable[[float], None]
    """Called with the seconds since `began_s`."""


class Pipeline:
    """Makes batches durable; `journal_all`, `commit_all` and `flush_rows` are tasks."""

    def __init__(self, durability: JournalFirst | WriteThrough) -> None:
        self._durability = durability
        self._applied: asyncio.Queue[PendingBatch] = asyncio.Queue()
        self._has_room = asyncio.Event()
        self._has_room.set()
        self._journaled: asyncio.Queue[tuple[PendingBatch, list[JournalPosition]]] = asyncio.Queue()
        """At most one element."""
        self._pending: deque[PendingBatch] = deque()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._has_ended = False

    @property
    def busy_since_s(self) -> float | None:
        """When the oldest pending batch began, by the monotonic clock; None: no batch is pending."""
        return self._pending[0].began_s if self._pending else None

    def list_pending_rows(self, partition: int) -> Iterator[RowChange]:
        """Yield the rows that pending batches have changed, in order."""
        for pending in self._pending:
            for batch in pending.batches:
                if batch.partition == partition:
                    yield from batch.result.rows

    async def wait_for_room(self) -> None:
        """Wait until another batch may be applied. Raises StageEnded."""
        await self._has_room.wait()
        self._check_running()

    def add(self, pending: PendingBatch) -> None:
        """Add batches that were applied immediately after `wait_for_room`. Raises StageEnded."""
        self._check_running()
        self._pending.append(pending)
        self._is_idle.clear()
        self._applied.put_nowait(pending)
        if self._applied.qsize() > AHEAD_MAX:
            self._has_room.clear()

    def _check_running(self) -> None:
        if self._has_ended:
            raise StageEnded("the stage has ended; its last batches are not durable")

    async def journal_all(self) -> None:
        """Write batches to the journal until cancelled, at most one batch ahead of `commit_all`."""
        while True:
            pending = await self._applied.get()
            if self._applied.qsize() <= AHEAD_MAX:
                self._has_room.set()
            positions = await self._durability.append(pending.batches)
            await self._journaled.join()
            self._journaled.put_nowait((pending, positions))

    async def commit_all(self) -> None:
        """Publish the outputs of journaled batches until cancelled."""
        while True:
            pending, positions = await self._journaled.get()
            await self._durability.commit(pending.batches, positions)
            pending.on_durable(time.monotonic() - pending.began_s)
            self._pending.popleft()
            self._journaled.task_done()
            if not self._pending:
                self._is_idle.set()

    async def flush_rows(self) -> None:
        """Write rows when they are due, until cancelled."""
        while True:
            await asyncio.sleep(_FLUSH_CHECK_S)
            await self._durability.flush()

    async def make_durable(self) -> None:
        """Wait until all batches are durable, and write all rows; no batch may be added meanwhile."""
        await self._is_idle.wait()
        await self._durability.flush(force=True)

    def drop_pending(self) -> None:
        self._has_ended = True
        while not self._applied.empty():
            self._applied.get_nowait()
        self._has_room.set()
        self._pending.clear()
        self._is_idle.set()
