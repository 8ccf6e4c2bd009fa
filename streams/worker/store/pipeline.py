"""Makes applied batches durable, one after the other, in two steps.

While a batch is on its way to the broker the next one is applied to the state in memory, so neither
the broker nor this process waits for the other. A batch is first written to the journal, then its
outputs are published; while one batch is in the second step the next one is in the first. A batch
is durable, reported and acknowledged only after all batches before it. The first batch that cannot
be made durable ends the pipeline; batches applied after it do not count.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from streams.stage.journal import JournalPlace
from streams.stage.records import AppliedBatch, RowChange
from streams.worker.store.journal_first import JournalFirst
from streams.worker.store.writethrough import WriteThrough

#: How often rows are checked for being due, in seconds.
_FLUSH_CHECK_S = 0.25
#: Batches that are applied and wait for the one that is being written to the journal.
AHEAD_MAX = 1


class StageEnded(RuntimeError):
    """Nothing becomes durable any more: the worker stops, or the stage has failed and said why."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """Batches, at most one per partition, that are applied and not durable yet."""

    batches: list[AppliedBatch]
    began_s: float
    on_durable: Callable[[float], None]
    """Called with the seconds since `began_s`."""


class Pipeline:
    """Makes batches durable; `journal_all`, `commit_all` and `flush_rows` run as tasks."""

    def __init__(self, durability: JournalFirst | WriteThrough) -> None:
        self._durability = durability
        self._applied: asyncio.Queue[UnderWay] = asyncio.Queue()
        self._room = asyncio.Event()
        self._room.set()
        self._journaled: asyncio.Queue[tuple[UnderWay, list[JournalPlace]]] = asyncio.Queue()
        """At most one: it is joined before the next one is put."""
        self._under_way: deque[UnderWay] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._ended = False

    @property
    def busy_since_s(self) -> float | None:
        """When the oldest batch under way began, by the monotonic clock; none: there is none."""
        return self._under_way[0].began_s if self._under_way else None

    def rows_under_way(self, partition: int) -> Iterator[RowChange]:
        """Rows that batches under way have changed, in their order."""
        for under_way in self._under_way:
            for batch in under_way.batches:
                if batch.partition == partition:
                    yield from batch.result.rows

    async def wait_for_room(self) -> None:
        """Return when another batch may be applied; for one caller at a time.

        Raises:
            StageEnded: nothing becomes durable any more.
        """
        await self._room.wait()
        self._check_running()

    def add(self, under_way: UnderWay) -> None:
        """Make batches durable after all earlier ones; the caller has waited for room and has
        applied them since, without a wait in between.

        Raises:
            StageEnded: nothing becomes durable any more.
        """
        self._check_running()
        self._under_way.append(under_way)
        self._idle.clear()
        self._applied.put_nowait(under_way)
        if self._applied.qsize() > AHEAD_MAX:
            self._room.clear()

    def _check_running(self) -> None:
        if self._ended:
            raise StageEnded("the stage has ended; what was applied is not durable")

    async def journal_all(self) -> None:
        """Write batches to the journal until cancelled, one ahead of the batch being committed."""
        while True:
            under_way = await self._applied.get()
            if self._applied.qsize() <= AHEAD_MAX:
                self._room.set()
            places = await self._durability.append(under_way.batches)
            await self._journaled.join()
            self._journaled.put_nowait((under_way, places))

    async def commit_all(self) -> None:
        """Commit batches that are in the journal until cancelled."""
        while True:
            under_way, places = await self._journaled.get()
            await self._durability.commit(under_way.batches, places)
            under_way.on_durable(time.monotonic() - under_way.began_s)
            self._under_way.popleft()
            self._journaled.task_done()
            if not self._under_way:
                self._idle.set()

    async def flush_rows(self) -> None:
        """Write rows when they are due until cancelled; they become due also without new batches."""
        while True:
            await asyncio.sleep(_FLUSH_CHECK_S)
            await self._durability.flush()

    async def settle(self) -> None:
        """Return when everything is durable and all rows are written; nothing may be added
        meanwhile."""
        await self._idle.wait()
        await self._durability.flush(force=True)

    def give_up(self) -> None:
        """Drop the batches under way: they will not become durable."""
        self._ended = True
        while not self._applied.empty():
            self._applied.get_nowait()
        self._room.set()
        self._under_way.clear()
        self._idle.set()
