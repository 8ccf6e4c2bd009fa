"""Writes checkpoints in the background. A replay starts from a checkpoint if the first batch is missing.

Immediately after rows were written, the local tables reflect one position of the journal. If a checkpoint
is due, the checkpointer copies the tables at that moment (not the rows themselves). Then it writes the rows
piece by piece while batches continue, with a separate producer.

A checkpoint is due when log time enters the next interval, so restarts cause no additional checkpoints.
When the worker loses the partition, the checkpoint stops. Without its last piece it is ignored. If a
checkpoint fails, the failure is reported, and batches continue.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Literal

from schemas.storage.rows import PartitionRow
from schemas.storage.tables import POSITION, row_key
from schemas.topics.codec import decode_as
from streams.stage.checkpoint import PIECE_BYTES, TOPIC, CheckpointEncoder, Row
from streams.stage.journal import JournalPosition
from streams.stage.long_rows import is_chunk, join_chunks
from streams.stage.records import decompress
from streams.worker.store.publisher import Publisher

logger = logging.getLogger(__name__)

Result = Literal["written", "stopped", "failed"]

#: Rows encoded in one iteration of the event loop.
ROWS_PER_ITERATION = 500
#: Pause after a failed checkpoint, in seconds.
RETRY_S = 60.0

#: Compressed rows of each table by key, including other partitions.
Tables = Sequence[Mapping[bytes, bytes]]


@dataclass(slots=True)
class _Task:
    partition: int
    position: JournalPosition
    now_ms: int
    interval: int
    tables: Tables
    stopped: bool = False


class Checkpointer:
    """Writes checkpoints of partitions; `run` is a task of the worker."""

    def __init__(
        self,
        publisher: Publisher,
        interval_s: float,
        count_result: Callable[[Result], None],
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        """Write with `publisher`, which `run` starts and stops.

        `interval_s` is log time; `count_result` is called after each checkpoint.
        """
        self._piece_bytes = piece_bytes
        self._publisher = publisher
        self._interval_ms = int(interval_s * 1000)
        self._count_result = count_result
        self._intervals: dict[int, int | None] = {}
        """Interval of the newest checkpoint by partition; None: before the first clock tick."""
        self._task: _Task | None = None
        self._task_started = asyncio.Event()

    def open(self, partition: int, clock: bytes | None) -> None:
        """Start a partition; `clock` is the row of kind `partitions`."""
        self._intervals.setdefault(partition, self._find_interval(_read_now_ms(clock)))

    def close(self, partition: int) -> None:
        """Stop the checkpoint of a partition."""
        self._intervals.pop(partition, None)
        if self._task is not None and self._task.partition == partition:
            self._task.stopped = True

    def start_if_due(
        self,
        partition: int,
        position: JournalPosition,
        clock: bytes | None,
        copy_tables: Callable[[], Tables],
    ) -> None:
        """Start a checkpoint if one is due.

        `position` is the journal position that the local tables reflect at this moment; `clock` is the row of
        kind `partitions`.
        """
        now_ms = _read_now_ms(clock)
        interval = self._find_interval(now_ms)
        if self._task is not None or now_ms is None or interval is None:
            return
        last_interval = self._intervals.get(partition)
        if last_interval is None or interval < last_interval:
            # The journal is new, or the clock was ahead and has been corrected.
            self._intervals[partition] = interval
        elif interval > last_interval:
            self._task = _Task(partition, position, now_ms, interval, copy_tables())
            self._task_started.set()

    async def run(self) -> None:
        """Write checkpoints until cancelled."""
        await self._publisher.start()
        try:
            while True:
                await self._task_started.wait()
                self._task_started.clear()
                if self._task is not None:
                    await self._process(self._task)
                    self._task = None
        finally:
            await self._publisher.stop()

    async def _process(self, task: _Task) -> None:
        result: Result = "failed"
        try:
            result = "written" if await self._write(task) else "stopped"
        except asyncio.CancelledError:
            result = "stopped"
            raise
        except Exception as error:
            logger.warning(
                "the checkpoint of partition %d at journal offset %d could not be written: %s",
                task.partition,
                task.position.offset,
                error,
            )
        finally:
            self._count_result(result)
        if result == "written" and task.partition in self._intervals:
            self._intervals[task.partition] = task.interval
        task.tables = ()
        if result == "failed":
            await asyncio.sleep(RETRY_S)

    async def _write(self, task: _Task) -> bool:
        """Write all pieces; return False if the checkpoint was stopped."""
        encoder = CheckpointEncoder(task.partition, task.position, task.now_ms, self._piece_bytes)
        for table in task.tables:
            rows = _join_rows(task.partition, table)
            for _ in range(0, len(table), ROWS_PER_ITERATION):
                for piece in encoder.add(islice(rows, ROWS_PER_ITERATION)):
                    if task.stopped:
                        return False
                    await self._publisher.append(TOPIC, task.partition, [piece])
                await asyncio.sleep(0)
        for piece in encoder.close():
            if task.stopped:
                return False
            await self._publisher.append(TOPIC, task.partition, [piece])
        return True

    def _find_interval(self, now_ms: int | None) -> int | None:
        return None if now_ms is None else now_ms // self._interval_ms


def _join_rows(partition: int, table: Mapping[bytes, bytes]) -> Iterator[Row]:
    """Yield the rows of a partition, with joined chunks and without the journal position."""
    prefix, position_key = f"{partition}/".encode(), row_key(partition, "", POSITION)

    def read_chunk(key: bytes) -> bytes | None:
        return decompress(table[key]) if key in table else None

    for raw, value in table.items():
        if raw.startswith(prefix):
            key = raw.decode()
            if key != position_key and not is_chunk(key):
                yield key, join_chunks(key, decompress(value), read_chunk)


def _read_now_ms(value: bytes | None) -> int | None:
    row = None if value is None else decode_as(PartitionRow, value)
    return row.now_ms if isinstance(row, PartitionRow) else None
