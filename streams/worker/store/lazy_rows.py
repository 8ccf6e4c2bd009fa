"""Writes the rows of a journal-first stage lazily and together.

Changed rows wait until they are due, and are written piece by piece while batches go on. The row
that names the journal position comes last: it says that the tables reflect the journal up to there,
and recovery redoes what follows. So a changed row that was written and has no such row after it is
only written twice.
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
from streams.stage.journal import JournalPlace
from streams.stage.packing import Changes
from streams.stage.records import RowChange
from streams.worker.event_loop import Pace
from streams.worker.store.checkpointer import Checkpointer, References
from streams.worker.store.fence import FencedPublisher
from streams.worker.tables import RowTable

#: Longest time that a changed row stays unwritten, in seconds: bounds what is redone after a crash.
#: A node's row holds all its pods, so it is written once for many of their changes.
UNWRITTEN_S = 5.0
#: Time between two writes of rows, in seconds, while few have changed.
FLUSH_INTERVAL_S = 1.0
#: At most this many changed rows are few.
FEW_ROWS = 500
#: Bytes of a piece, in which rows are packed and written; batches wait for one at most.
PIECE_BYTES = 256 * 1024
#: Rows are written at most so long after the journal last showed that the partition is ours, in
#: seconds. A worker that stood still for longer than its session must not write old rows over its
#: successor's.
OWNED_S = 2.0
#: Most changed rows that stay unwritten; with more of them rows are written without rests.
UNWRITTEN_ROWS_MAX = 20_000


@dataclass(slots=True)
class OwnedPartition:
    """A partition from its takeover until it is closed or taken over again."""

    number: int
    topic_ids: dict[str, str]
    """Ids of the topics that its state is made of."""
    appended: JournalPlace
    """Up to where the journal is written."""
    published: JournalPlace
    """Up to where its outputs are published; rows that are written are those of this place."""
    owned_at_s: float
    """When the journal showed last that the partition is ours, by the monotonic clock."""
    unwritten: Changes
    writing: Changes = field(default_factory=Changes)
    """Those on their way to the tables."""

    @property
    def is_surely_ours(self) -> bool:
        """Whether the journal has shown a moment ago that the partition is ours."""
        return time.monotonic() - self.owned_at_s <= OWNED_S


class LazyRows:
    """Writes changed rows to changelogs and local tables."""

    def __init__(
        self,
        tables: Sequence[RowTable],
        publisher: FencedPublisher,
        checkpoints: Checkpointer | None = None,
    ) -> None:
        """`checkpoints` is notified each time that the rows reflect one place of the journal."""
        self._tables = {table.name: table for table in tables}
        self._publisher = publisher
        self._checkpoints = checkpoints
        self.partitions: dict[int, OwnedPartition] = {}
        self._flushed_at_s = time.monotonic()
        self._flushing = asyncio.Lock()
        self._awaited = 0
        """How many wait until rows are written, or until they may write some."""

    async def claim(self, partition: int) -> None:
        """From now on no former owner of the partition can write to any changelog."""
        with self._in_a_hurry():
            async with self._flushing:  # rows of ours may be on their way through the claim before
                changelogs = [table.changelog for table in self._tables.values()]
                await self._publisher.claim(changelogs, partition)

    def open(self, owned: OwnedPartition, clock: bytes | None) -> None:
        """Write the rows of this partition from now on; `clock` is its row that says its time."""
        self.partitions[owned.number] = owned
        if self._checkpoints is not None:
            self._checkpoints.opened(owned.number, clock)

    def close(self, partition: int) -> None:
        """Forget the partition; its rows were flushed, or are redone by its next owner."""
        self.partitions.pop(partition, None)
        self._publisher.release(partition)
        if self._checkpoints is not None:
            self._checkpoints.closed(partition)

    def unwritten(self, partition: int) -> Sequence[Changes]:
        """Changes that the tables may lack: those on their way to them, then those that wait."""
        owned = self.partitions.get(partition)
        return () if owned is None else (owned.writing, owned.unwritten)

    async def flush(self, *, force: bool = False) -> None:
        """Write rows that have waited long enough, or are many; all if forced.

        Batches may be committed meanwhile. Rows of a partition that may be another worker's by now
        stay: its owner redoes them.
        """
        if not force:
            await self._flush(force=False)
            return
        with self._in_a_hurry():
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
    def _in_a_hurry(self) -> Iterator[None]:
        """Rows that are being written are written without rests: this waits for them."""
        self._awaited += 1
        try:
            yield
        finally:
            self._awaited -= 1

    async def _write(self, owned: OwnedPartition) -> None:
        """Write the rows as they are now; a checkpoint may begin when all are written."""
        if not owned.unwritten or not self._may_write(owned):
            return
        changes, place = owned.unwritten, owned.published
        owned.writing, owned.unwritten = changes, Changes()
        written = False
        try:
            written = await self._write_pieces(owned, changes, place)
        finally:
            if not written:
                # Some rows may be ahead of their place now; the stage that goes on from it redoes
                # them.
                for change in owned.unwritten:
                    changes.add(change.key, change.value)
                owned.unwritten = changes
            owned.writing = Changes()
        # Nothing has been waited for since: the local rows are those of this place, all of them and
        # no newer ones.
        if written and self._checkpoints is not None and self._may_write(owned):
            clock = self._row(row_key(owned.number, "", PARTITION))
            self._checkpoints.written(owned.number, place, clock, self._references)

    async def _write_pieces(
        self, owned: OwnedPartition, changes: Changes, place: JournalPlace
    ) -> bool:
        """Whether all were written: not once the partition may be another worker's."""
        piece: list[RowChange] = []
        size = 0
        pace = Pace()
        for row in changes.rows(self._row):
            piece.append(row)
            size += len(row.value or b"")
            if pace.is_over:
                many = self._count_unwritten() >= UNWRITTEN_ROWS_MAX
                await pace.rest(hurry=many or self._awaited > 0)
            if size >= PIECE_BYTES:
                if not self._may_write(owned):
                    return False
                await self._write_piece(owned.number, piece)
                piece, size = [], 0
        reached = JournalPositionRow(
            partition=owned.number,
            epoch=place.epoch,
            sequence=place.sequence,
            offset=place.offset,
            topic_ids=owned.topic_ids,
        )
        position = RowChange(row_key(owned.number, "", POSITION), encode(reached))
        # The position is written when the brokers have acknowledged all other rows.
        for last in (piece, [position]):
            if not self._may_write(owned):
                return False
            await self._write_piece(owned.number, last)
        return True

    def _may_write(self, owned: OwnedPartition) -> bool:
        """Owned since this takeover; otherwise rows may be packed with what others wrote."""
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
        records = table.records(changes)
        await self._publisher.write_rows(table.changelog, partition, records)
        table.store(records)

    def _row(self, key: str) -> bytes | None:
        """A row as it was written last; None: there is none."""
        return self._tables[table_of_key(key)].row(key)

    def _references(self) -> References:
        """Keys and values of each table as they were written last, of all partitions."""
        return [table.references() for table in self._tables.values()]
