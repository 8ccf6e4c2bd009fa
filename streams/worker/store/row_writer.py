"""Writes the rows of the cluster stage every few seconds.

Changed rows are written in pieces while batches continue. The row with the journal position is written
last. Recovery applies the journal after that position, so if writing is interrupted, rows are only written
again.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field

from schemas.storage.rows import JournalPositionRow
from schemas.storage.tables import PARTITION, POSITION, row_key, table_of_key
from schemas.topics.codec import encode
from streams.stage.journal import JournalPosition
from streams.stage.packing import Changes
from streams.stage.records import RowChange
from streams.worker.event_loop import TimeSlice
from streams.worker.store.checkpointer import Checkpointer
from streams.worker.store.fence import FencedPublisher
from streams.worker.tables import RowTable

#: Time between two writes of many rows, in seconds: limits the work of a recovery. A node's row has all
#: pods of the node, so it is written once for many changes.
MANY_ROWS_INTERVAL_S = 5.0
#: Time between two writes of at most `FEW_ROWS` rows, in seconds.
FEW_ROWS_INTERVAL_S = 1.0
FEW_ROWS = 500
#: Size of a piece; batches wait for at most one piece.
PIECE_BYTES = 256 * 1024
#: Longest time between a write to the journal and a write of rows, in seconds. A worker that was suspended
#: for longer than its session must not replace the rows of its successor.
OWNED_S = 2.0
#: With more changed rows, rows are written without rests.
UNWRITTEN_ROWS_MAX = 20_000


@dataclass(slots=True)
class OwnedPartition:
    """An owned partition since its takeover."""

    number: int
    topic_ids: dict[str, str]
    """Ids of the topics that its state depends on."""
    appended: JournalPosition
    """Position of the last batch in the journal."""
    published: JournalPosition
    """Position of the last batch with published outputs; `unwritten` has the rows up to this batch."""
    owned_at_s: float
    """When the journal last proved the ownership, by the monotonic clock."""
    unwritten: Changes
    writing: Changes = field(default_factory=Changes)


class RowWriter:
    """Writes changed rows to changelogs and local tables."""

    def __init__(
        self,
        tables: Sequence[RowTable],
        publisher: FencedPublisher,
        checkpoints: Checkpointer | None = None,
    ) -> None:
        """`checkpoints` may start a checkpoint when all changed rows are written."""
        self._tables = {table.name: table for table in tables}
        self._publisher = publisher
        self._checkpoints = checkpoints
        self.partitions: dict[int, OwnedPartition] = {}
        self._flushed_at_s = time.monotonic()
        self._flushing = asyncio.Lock()
        self._waiting = 0
        """Number of tasks that wait for rows to be written."""

    async def claim(self, partition: int) -> None:
        """Claim the partition's changelogs, so that former owners cannot write to them."""
        with self._hurry():
            async with self._flushing:  # a write with the previous claim may be pending
                changelogs = [table.changelog for table in self._tables.values()]
                await self._publisher.claim(changelogs, partition)

    def open(self, owned: OwnedPartition, clock: bytes | None) -> None:
        """Start to write rows of a partition; `clock` is the row of kind `partitions`."""
        self.partitions[owned.number] = owned
        if self._checkpoints is not None:
            self._checkpoints.open(owned.number, clock)

    def close(self, partition: int) -> None:
        """Stop writing rows of a partition; the next owner restores unwritten rows from the journal."""
        self.partitions.pop(partition, None)
        self._publisher.release(partition)
        if self._checkpoints is not None:
            self._checkpoints.close(partition)

    def list_unwritten(self, partition: int) -> Sequence[Changes]:
        """Return changes that may be missing in the tables, oldest first."""
        owned = self.partitions.get(partition)
        return () if owned is None else (owned.writing, owned.unwritten)

    async def flush(self, *, force: bool = False) -> None:
        """Write rows that are due; with `force`, all changed rows.

        Batches may be committed meanwhile. Rows of partitions that may have another owner are not
        written.
        """
        with self._hurry() if force else nullcontext():
            async with self._flushing:
                count = self._count_unwritten()
                interval_s = FEW_ROWS_INTERVAL_S if count <= FEW_ROWS else MANY_ROWS_INTERVAL_S
                waited_s = time.monotonic() - self._flushed_at_s
                if force or count >= UNWRITTEN_ROWS_MAX or waited_s >= interval_s:
                    self._flushed_at_s = time.monotonic()
                    for _, owned in sorted(self.partitions.items()):
                        await self._write(owned)

    def _count_unwritten(self) -> int:
        return sum(len(owned.unwritten) for owned in self.partitions.values())

    @contextmanager
    def _hurry(self) -> Iterator[None]:
        """Write rows without rests while the block waits for them."""
        self._waiting += 1
        try:
            yield
        finally:
            self._waiting -= 1

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
                # Some written rows may be newer than the stored position; recovery writes them again.
                for change in owned.unwritten:
                    changes.add(change.key, change.value)
                owned.unwritten = changes
            owned.writing = Changes()
        # No other task has run since the last write, so the local rows reflect `position`.
        if written and self._checkpoints is not None and self._may_write(owned):
            clock = self._read_row(row_key(owned.number, "", PARTITION))
            self._checkpoints.start_if_due(
                owned.number,
                position,
                clock,
                lambda: [table.copy_rows() for table in self._tables.values()],
            )

    async def _write_pieces(
        self, owned: OwnedPartition, changes: Changes, position: JournalPosition
    ) -> bool:
        """Write the rows and the position; return False if the partition may have another owner."""
        piece: list[RowChange] = []
        size = 0
        time_slice = TimeSlice()
        for change in changes.pack_rows(self._read_row):
            piece.append(change)
            size += len(change.value or b"")
            if time_slice.is_over:
                many = self._count_unwritten() >= UNWRITTEN_ROWS_MAX
                await time_slice.rest(hurry=many or self._waiting > 0)
            if size >= PIECE_BYTES:
                if not self._may_write(owned):
                    return False
                await self._write_piece(owned.number, piece)
                piece, size = [], 0
        row = JournalPositionRow(
            partition=owned.number,
            epoch=position.epoch,
            sequence=position.sequence,
            offset=position.offset,
            topic_ids=owned.topic_ids,
        )
        position_row = RowChange(row_key(owned.number, "", POSITION), encode(row))
        # The position is written after all other rows are acknowledged.
        for rows in (piece, [position_row]):
            if not self._may_write(owned):
                return False
            await self._write_piece(owned.number, rows)
        return True

    def _may_write(self, owned: OwnedPartition) -> bool:
        """Tell whether the worker has owned the partition since this takeover, as the journal proved recently."""
        is_recent = time.monotonic() - owned.owned_at_s <= OWNED_S
        return is_recent and self.partitions.get(owned.number) is owned

    async def _write_piece(self, partition: int, piece: Collection[RowChange]) -> None:
        by_table: dict[str, list[RowChange]] = defaultdict(list)
        for change in piece:
            by_table[table_of_key(change.key)].append(change)
        records = {
            name: self._tables[name].split_changes(changes) for name, changes in by_table.items()
        }
        changelogs = {self._tables[name].changelog: rows for name, rows in records.items()}
        await self._publisher.write_rows(partition, changelogs)
        for name, rows in records.items():
            self._tables[name].store(rows)

    def _read_row(self, key: str) -> bytes | None:
        return self._tables[table_of_key(key)].read_row(key)
