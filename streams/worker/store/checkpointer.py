"""Checkpoints written beside the batches: what a replay begins at where the journal's beginning is
gone.

Right after rows were written the local tables reflect exactly one place of the journal. If a
checkpoint is due then, references to the rows are taken at once. Pieces are made of them and
written one after the other while batches go on: one checkpoint at a time, one piece in flight, by a
separate producer. A checkpoint is due when the log's clock enters the next interval. So restarts
and rebalances do not make more of them, and there are fewer only if the writer ended in the middle.
When the worker loses a partition, its checkpoint stops: without a last piece it does not count. A
checkpoint that cannot be written is reported and stops nothing else.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import islice
from typing import Literal

from schemas.base.refusals import Refusal
from schemas.storage.rows import PartitionRow
from schemas.storage.tables import POSITION, row_key
from schemas.topics.codec import decode_as
from streams.stage.checkpoint import PIECE_BYTES, TOPIC, Cutter, Row
from streams.stage.journal import JournalPlace
from streams.stage.long_rows import is_chunk, joined
from streams.stage.records import decompress
from streams.worker.store.publisher import Publisher

logger = logging.getLogger(__name__)

#: The result of a checkpoint that was begun.
Result = Literal["written", "stopped", "failed"]

#: Rows that are looked at before batches have their turn again.
ROWS_PER_TURN = 500
#: So long after one that could not be written the next one is begun, in seconds.
RETRY_S = 60.0

#: Keys and compressed values of each table, those of other partitions among them.
References = Sequence[tuple[list[bytes], list[bytes]]]


@dataclass(slots=True)
class _Task:
    partition: int
    place: JournalPlace
    now_ms: int
    interval: int
    references: References
    stopped: bool = False


class Checkpointer:
    """Writes checkpoints of partitions; `run` it beside the stage."""

    def __init__(
        self,
        publisher: Publisher,
        interval_s: float,
        tell: Callable[[Result], None],
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        """`interval_s` is of the log's time; `tell` is given the result of each one that was begun."""
        self._piece_bytes = piece_bytes
        self._publisher = publisher
        self._interval_ms = int(interval_s * 1000)
        self._tell = tell
        self._intervals: dict[int, int | None] = {}
        """The interval that the newest checkpoint of a partition is of; none: its clock has not
        ticked."""
        self._task: _Task | None = None
        self._given = asyncio.Event()

    def opened(self, partition: int, clock: bytes | None) -> None:
        """The partition is ours, and this is its row of kind `partitions` by the tables."""
        self._intervals.setdefault(partition, self._interval(_now_ms(clock)))

    def closed(self, partition: int) -> None:
        """It belongs to another worker."""
        self._intervals.pop(partition, None)
        if self._task is not None and self._task.partition == partition:
            self._task.stopped = True

    def written(
        self,
        partition: int,
        place: JournalPlace,
        clock: bytes | None,
        references: Callable[[], References],
    ) -> None:
        """The local tables reflect the place at this moment; `references` takes what they hold."""
        now_ms = _now_ms(clock)
        interval = self._interval(now_ms)
        if self._task is not None or now_ms is None or interval is None:
            return
        before = self._intervals.get(partition)
        if before is None or interval < before:
            # Its journal has just begun, or its time was ahead and was set right.
            self._intervals[partition] = interval
        elif interval > before:
            self._task = _Task(partition, place, now_ms, interval, references())
            self._given.set()

    async def run(self) -> None:
        """Write what is due until cancelled."""
        while True:
            await self._given.wait()
            self._given.clear()
            task = self._task
            if task is not None:
                await self._put(task)
                self._task = None

    async def _put(self, task: _Task) -> None:
        result: Result = "failed"
        try:
            result = "written" if await self._write(task) else "stopped"
        except asyncio.CancelledError:
            result = "stopped"
            raise
        except Exception as error:
            if self._publisher.running:
                # Batches do not need it, and what stands in their way they find out for themselves.
                logger.warning(
                    "the checkpoint of partition %d at journal offset %d could not be written: %s",
                    task.partition,
                    task.place.offset,
                    error,
                )
            else:
                result = "stopped"  # the worker ends
        finally:
            self._tell(result)
        if result == "written" and task.partition in self._intervals:
            self._intervals[task.partition] = task.interval
        task.references = ()
        if result == "failed":
            await asyncio.sleep(RETRY_S)

    async def _write(self, task: _Task) -> bool:
        """Whether it is whole."""
        cutter = Cutter(task.partition, task.place, task.now_ms, self._piece_bytes)
        for keys, values in task.references:
            rows = _rows_of(task.partition, keys, values)
            for _ in range(0, len(keys), ROWS_PER_TURN):
                for piece in cutter.take(islice(rows, ROWS_PER_TURN)):
                    if task.stopped:
                        return False
                    await self._publisher.append(TOPIC, task.partition, [piece])
                await asyncio.sleep(0)
        for piece in cutter.close():
            if task.stopped:
                return False
            await self._publisher.append(TOPIC, task.partition, [piece])
        return True

    def _interval(self, now_ms: int | None) -> int | None:
        return None if now_ms is None else now_ms // self._interval_ms


def _rows_of(partition: int, keys: Sequence[bytes], values: Sequence[bytes]) -> Iterator[Row]:
    """The partition's own rows, long ones joined, without how far they reflect the journal."""
    prefix, position = f"{partition}/".encode(), row_key(partition, "", POSITION)

    @cache
    def all_rows() -> dict[bytes, bytes]:
        return dict(zip(keys, values, strict=True))

    def chunk(key: bytes) -> bytes | None:
        kept = all_rows().get(key)
        return None if kept is None else decompress(kept)

    for raw, kept in zip(keys, values, strict=True):
        if raw.startswith(prefix):
            key = raw.decode()
            if key != position and not is_chunk(key):
                yield key, joined(key, decompress(kept), chunk)


def _now_ms(row: bytes | None) -> int | None:
    """The log's time; none: the clock has not ticked."""
    if row is None:
        return None
    read = decode_as(PartitionRow, row)
    return None if isinstance(read, Refusal) else read.now_ms
