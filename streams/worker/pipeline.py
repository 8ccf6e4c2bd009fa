"""Applied batches on their way to being durable, one after the other.

While a batch is on its way to the broker the next one is applied to the state in memory, so neither
the broker nor this process waits for the other. A batch is made durable in two steps, and while one
is in the second the next one is in the first: both travel in one request. The order is that of
applying: a batch is made durable, reported and acknowledged when all before it were. The first
batch that cannot be made durable ends the pipeline; what was applied after it does not count then.
"""

import asyncio
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from streams.stage.records import RowChange
from streams.worker.batches import Batch, BatchLimits
from streams.worker.durability import Applied, Durability, Journaled
from streams.worker.transport import PARCEL_RECORDS, PARCELS_QUEUED_MAX

#: How often is looked whether rows are due, in seconds.
_FLUSH_CHECK_S = 0.25
#: Batches that are applied and wait for the one that is being made durable.
AHEAD_MAX = 1


def in_flight_max(limits: BatchLimits) -> int:
    """Most records of a stage that were fetched and are not durable, however many wait in Kafka.

    Those of the stream's queue; a parcel at each of its ends and one that is being collected; the
    batch that is collected and one applied, one that waits, one that is written to the journal and
    one that is published.
    """
    return (PARCELS_QUEUED_MAX + 3) * PARCEL_RECORDS + (AHEAD_MAX + 4) * limits.records


class StageEnded(RuntimeError):
    """Nothing is made durable any more: the worker stops, or the stage has failed and said why."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """What is applied and not durable yet."""

    applied: list[Applied]
    batch: Batch
    """What of Faust's is acknowledged by it."""
    began_s: float


class Pipeline:
    """Makes batches durable; `journal_all`, `commit_all` and `flush_rows` run as tasks of their own."""

    def __init__(self, durability: Durability, tell: Callable[[UnderWay, float], None]) -> None:
        """`tell` is called with each batch that is durable, and the seconds that it took."""
        self._durability = durability
        self._tell = tell
        self._waiting: asyncio.Queue[UnderWay] = asyncio.Queue()
        """In the order of applying; who hands over more than may wait waits for room."""
        self._room = asyncio.Event()
        self._room.set()
        self._journaled: asyncio.Queue[tuple[UnderWay, Journaled]] = asyncio.Queue()
        """At most one: it is joined before the next one is put."""
        self._under_way: deque[UnderWay] = deque()
        self._idle = asyncio.Event()
        self._idle.set()
        self._over = False

    @property
    def busy_since_s(self) -> float | None:
        """When the oldest batch under way began, by the monotonic clock; none: there is none."""
        return self._under_way[0].began_s if self._under_way else None

    def rows_under_way(self, partition: int) -> Iterator[RowChange]:
        """Rows that batches under way have changed, in their order."""
        for it in self._under_way:
            for applied in it.applied:
                if applied.partition == partition:
                    yield from applied.result.rows

    async def hand_over(self, it: UnderWay) -> None:
        """Let this be made durable after all that came before; waits while that is much.

        It is handed over also where the caller is cancelled meanwhile: it is applied already, so
        what is applied after it must not become durable without it, and `settle` waits for it.

        Raises:
            StageEnded: nothing is made durable any more.
        """
        if not self._over:
            self._under_way.append(it)
            self._idle.clear()
            await asyncio.shield(self._put(it))
        if self._over:
            raise StageEnded("the stage has ended; what was applied is not durable")

    async def _put(self, it: UnderWay) -> None:
        # At once, and not when there is room: a batch that waits for that could be overtaken.
        self._waiting.put_nowait(it)
        if self._waiting.qsize() > AHEAD_MAX and not self._over:
            self._room.clear()
        await self._room.wait()

    async def journal_all(self) -> None:
        """Write what is handed over to the journal, for ever; raises what stands in the way.

        One batch ahead of what is committed and not more: the journal's answer comes no sooner for
        it.
        """
        while True:
            it = await self._waiting.get()
            if self._waiting.qsize() <= AHEAD_MAX:
                self._room.set()
            journaled = await self._durability.append(it.applied)
            await self._journaled.join()
            self._journaled.put_nowait((it, journaled))

    async def commit_all(self) -> None:
        """Make durable what is journaled, for ever; raises what stands in the way."""
        while True:
            it, journaled = await self._journaled.get()
            await self._durability.commit(journaled)
            it.batch.acknowledge()
            self._tell(it, time.monotonic() - it.began_s)
            self._under_way.popleft()
            self._journaled.task_done()
            if not self._under_way:
                self._idle.set()

    async def flush_rows(self) -> None:
        """Write rows when they are due, for ever: they become due also while nothing comes in."""
        while True:
            await asyncio.sleep(_FLUSH_CHECK_S)
            await self._durability.flush()

    async def settle(self) -> None:
        """Returns when everything is durable and all rows are written; meanwhile nothing may be
        handed over."""
        await self._idle.wait()
        await self._durability.flush(force=True)

    def give_up(self) -> None:
        """What is under way will never be durable; it is not waited for any longer."""
        self._over = True
        while not self._waiting.empty():
            self._waiting.get_nowait()
        self._room.set()
        self._under_way.clear()
        self._idle.set()
