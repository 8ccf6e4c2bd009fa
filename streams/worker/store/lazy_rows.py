"""Writes the rows of a journal-first stage every few seconds.

Changed rows are written in pieces while batches continue. The row with the journal position is written
after all others. Recovery applies the journal after that position, so rows that were written without a
new position are only written again.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from schemas.storage.rows import JournalPositionRow
from schemas.storage.tables import PARTITION, POSITION, row_key, table_of_key
from schemas.topics.codec import encode
from streams.stage.journal import JournalPosition
from streams.stage.packing import Changes
from streams.stage.records import RowChange
from streams.worker.event_loop import TimeSlice
from streams.worker.store.checkpointer import Checkpointer, References
from streams.worker.store.fence import FencedPublisher
from streams.worker.tables import RowTable

#: Time between two writes of many rows, in seconds: limits the work of a recovery. A node's row has all
#: its pods, so it is written once for many changes.
UNWRITTEN_S = 5.0
#: Time between two writes of at most `FEW_ROWS` rows, in seconds.
FLUSH_INTERVAL_S = 1.0
FEW_ROWS = 500
#: Size of a piece; batches wait for at most one piece.
PIECE_BYTES = 256 * 1024
#: How long after a write to the journal rows may be written, in seconds. A worker that was suspended for
#: longer than its session must not replace the rows of its successor.
OWNED_S = 2.0
#: With more changed rows, rows are written without rests.
UNWRITTEN_ROWS_MAX = 20_000


@dataclass(slots=True)
class OwnedPartition:
    """A partition between a takeover and its close or next takeover."""

    number: int
    topic_ids: dict[str, str]
    """Ids of the topics that its state depends on."""
    appended: JournalPosition
    """Position up to which the journal is written."""
    published: JournalPosition
    """Position up to which outputs are published; rows are written as of this position."""
    owned_at_s: float
    """When the journal last proved the ownership, by the monotonic clock."""
    unwritten: Changes
    writing: Changes = field(default_factory=Changes)

    @property
    def is_surely_ours(self) -> bool:
        """Whether the journal has proved the ownership recently."""
        return time.monotonic() - self.owned_at_s <= OWNED_S


class LazyRows:
    """Writes changed rows to changelogs and local tables."""

    def __init__(
        self,
        tables: Sequence[RowTable],
        publisher: FencedPublisher,
        checkpoints: Checkpointer | None = None,
    ) -> None:
        """`checkpoints` may start a checkpoint whenever all changed rows are written."""
        self._tables = {table.name: table for table in tables}
        self._publisher = publisher
        self._checkpoints = checkpoints
        self.partitions: dict[int, OwnedPartition] = {}
        self._flushed_at_s = time.monotonic()
        self._flushing = asyncio.Lock()
        self._awaited = 0
        """Number of tasks that wait for rows to be written."""

    async def claim(self, partition: int) -> None:
        """Claim the partition's changelogs, so that former owners cannot write to them."""
        with self._hurry():
            async with self._flushing:  # a write with the previous claim may be pending
                changelogs = [table.changelog for table in self._tables.values()]
                await self._publisher.claim(changelogs, partition)

    def open(self, owned: OwnedPartition, clock: bytes | None) -> None:
        """Start to write rows of a partition; `clock` is its row of kind `partitions`."""
        self.partitions[owned.number] = owned
        if self._checkpoints is not None:
            self._checkpoints.open(owned.number, clock)

    def close(self, partition: int) -> None:
        """Forget a partition; its next owner restores unwritten rows from the journal."""
        self.partitions.pop(partition, None)
        self._publisher.release(partition)
        if self._checkpoints is not None:
            self._checkpoints.close(partition)

    def unwritten(self, partition: int) -> Sequence[Changes]:
        """Return changes that the tables may lack: those being written, then the unwritten ones."""
        owned = self.partitions.get(partition)
        return () if owned is None else (owned.writing, owned.unwritten)

    async def flush(self, *, force: bool = False) -> None:
        """Write rows that are due; with `force`, all changed rows.

        Batches may be committed meanwhile. Rows of partitions that may have another owner are not
        written.
        """
        if not force:
            await self._flush(force=False)
            return
        with self._hurry():
            await self._flush(force=True)

    async def _flush(self, *, force: bool) -> None:
        async with self._flushing:
            count = self._count_unwritten()
            interval_s = FLUSH_INTERVAL_S if count <= FEW_ROWS else UNWRITTEN_S
            waited_s = time.monotonic() - self._flushed_at_s
            if force or count >= UNWRITTEN_ROWS_MAX or waited_s >= interval_s:
                self._flushed_at_s = time.monotonic()
                for _, owned in sorted(self.partitions.items()):
                    await self._write(owned)

    def _count_unwritten(self) -> int:
        return sum(len(owned.unwritten) for owned in self.partitions.values())

    @contextmanager
    def _hurry(self) -> Iterator[None]:
        """Let rows be written without rests, because the block waits for them."""
        self._awaited += 1
        try:
            yield
        finally:
            self._awaited -= 1

    async def _write(self, owned: OwnedPartition) -> None:
        """Write all changed rows, then start a checkpoint if one is due."""
        if not owned.unwritten or not self._may_write(owned):
            return
        changes, position = owned.unwritten, owned.published
        owned.writing, owned.unwritten = changes, Changes()
        written = False
        try:
            written = await self._write_pieces(owned, changes, position)
        finally:
            if not written:
                # Some rows may be newer than the stored position; recovery writes them again.
                for change in owned.unwritten:
                    changes.add(change.key, change.value)
                owned.unwritten = changes
            owned.writing = Changes()
        # No other task has run since the last write, so the local rows are exactly those of `position`.
        if written and self._checkpoints is not None and self._may_write(owned):
            clock = self._row(row_key(owned.number, "", PARTITION))
            self._checkpoints.start_if_due(owned.number, position, clock, self._references)

    async def _write_pieces(
        self, owned: OwnedPartition, changes: Changes, position: JournalPosition
    ) -> bool:
        """Write the rows and the position; return False if the partition may have another owner."""
        piece: list[RowChange] = []
        size = 0
        time_slice = TimeSlice()
        for row in changes.pack_rows(self._row):
            piece.append(row)
            size += len(row.value or b"")
            if time_slice.is_over:
                many = self._count_unwritten() >= UNWRITTEN_ROWS_MAX
                await time_slice.rest(hurry=many or self._awaited > 0)
            if size >= PIECE_BYTES:
                if not self._may_write(owned):
                    return False
                await self._write_piece(owned.number, piece)
                piece, size = [], 0
        reached = JournalPositionRow(
            partition=owned.number,
            epoch=position.epoch,
            sequence=position.sequence,
            offset=position.offset,
            topic_ids=owned.topic_ids,
        )
        position_row = RowChange(row_key(owned.number, "", POSITION), encode(reached))
        # The position is written after all other rows are acknowledged.
        for rows in (piece, [position_row]):
            if not self._may_write(owned):
                return False
            await self._write_piece(owned.number, rows)
        return True

    def _may_write(self, owned: OwnedPartition) -> bool:
        """Tell whether the partition has been owned since its takeover."""
        return self.partitions.get(owned.number) is owned and owned.is_surely_ours

    async def _write_piece(self, partition: int, piece: Collection[RowChange]) -> None:
        by_table: dict[str, list[RowChange]] = defaultdict(list)
        for change in piece:
            by_table[table_of_key(change.key)].append(change)
        await asyncio.gather(
            *(
                self._write_table(self._tables[name], partition, changes)
                for name, changes in by_table.items()
            )
        )

    async def _write_table(
        self, table: RowTable, partition: int, changes: Collection[RowChange]
    ) -> None:
        records = table.split_changes(changes)
        await self._publisher.write_rows(table.changelog, partition, records)
        table.store(records)

    def _row(self, key: str) -> bytes | None:
        return self._tables[table_of_key(key)].read_row(key)

    def _references(self) -> References:
        return [table.list_references() for table in self._tables.values()]
