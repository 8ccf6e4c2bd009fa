"""The journal first, then outputs, rows lazily: decisions are made once.

A batch is written to the journal before anything else. Outputs follow when the journal is
acknowledged, while the next batch is written to it already; rows are written lazily and together,
and after a crash the journal's tail is redone over them.
"""

import asyncio
import time
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager

from schemas.codec import decode_as, encode
from schemas.connection import KafkaSettings
from schemas.refusals import Refusal
from schemas.rows import JournalPositionRow
from schemas.tables import PARTITION, POSITION, row_key, table_of_key
from streams.stage import journal
from streams.stage.packing import Changes
from streams.stage.records import DamagedTable, OutputRecord, RowChange
from streams.worker.checkpointer import Checkpointer, References
from streams.worker.durability import Applied, Journaled, PartitionRows
from streams.worker.fence import FencedPublisher
from streams.worker.journal_tail import passed_over
from streams.worker.pace import Pace
from streams.worker.publisher import UNKNOWN_OWNER, LostOwnership, Publisher
from streams.worker.reader import read_pieces
from streams.worker.tables import RowTable
from streams.worker.topic_identity import check_ids

#: Longest time that a changed row stays unwritten, in seconds: bounds what is redone after a crash.
#: A node's row holds all its pods, so it is written once for many of their changes.
UNWRITTEN_S = 5.0
#: Rows are written so often, in seconds, while they are few.
FLUSH_INTERVAL_S = 1.0
#: At most this many changed rows are few.
FEW_ROWS = 500
#: Rows are packed and written in pieces of this many bytes; batches wait for one at most.
PIECE_BYTES = 256 * 1024
#: Rows are written so long after the journal last showed that the partition is still ours, in
#: seconds. A worker that stood still for longer than its session must not write old rows over its
#: successor's.
OWNED_S = 2.0
#: Most changed rows that stay unwritten; with more of them rows are written without rests.
UNWRITTEN_ROWS_MAX = 20_000


class RowWriter:
    """Writes row changes to changelogs and local tables."""

    def __init__(self, tables: Sequence[RowTable], publisher: FencedPublisher) -> None:
        self._tables = {table.name: table for table in tables}
        self._publisher = publisher

    async def claim(self, partition: int) -> None:
        """From now on no former owner of the partition can write to any changelog."""
        await self._publisher.claim([table.changelog for table in self._tables.values()], partition)

    def release(self, partition: int) -> None:
        """The partition belongs to another worker now."""
        self._publisher.release(partition)

    async def write(self, partition: int, changes: Collection[RowChange]) -> None:
        """Returns when the brokers have acknowledged all of them."""
        by_table: dict[str, list[RowChange]] = defaultdict(list)
        for change in changes:
            by_table[table_of_key(change.key)].append(change)
        await asyncio.gather(
            *(self._write(self._tables[name], partition, own) for name, own in by_table.items())
        )

    def row(self, key: str) -> bytes | None:
        """A row as it was written last; None: there is none."""
        return self._tables[table_of_key(key)].row(key)

    def references(self) -> References:
        """Keys and values of each table as they were written last, of all partitions."""
        return [table.references() for table in self._tables.values()]

    async def _write(self, table: RowTable, partition: int, changes: Collection[RowChange]) -> None:
        records = table.records(changes)
        await self._publisher.write_rows(table.changelog, partition, records)
        table.store(records)


class JournalFirst:
    """Durability of a stage whose decisions are made once; see `durability.Durability`."""

    topics: tuple[str, ...] = (journal.TOPIC,)

    def __init__(
        self,
        settings: KafkaSettings,
        publisher: Publisher,
        writer: RowWriter,
        checkpoints: Checkpointer | None = None,
    ) -> None:
        """`checkpoints` is notified of rows that reflect one place of the journal, each time that
        they do."""
        self._settings = settings
        self._publisher = publisher
        self._writer = writer
        self._checkpoints = checkpoints
        self.topic_ids: Mapping[str, str] = {}
        self._ends: dict[int, journal.Place] = {}
        """Up to where the journal is written."""
        self._places: dict[int, journal.Place] = {}
        """Up to where its outputs are published; rows that are written are those of this place."""
        self._owned_at_s: dict[int, float] = {}
        """When the journal showed last that a partition is ours."""
        self._unwritten: dict[int, Changes] = defaultdict(Changes)
        self._writing: dict[int, Changes] = {}
        """Those on their way to the tables."""
        self._flushed_at_s = time.monotonic()
        self._flushing = asyncio.Lock()
        self._awaited = 0
        """How many wait until rows are written, or until they may write some."""

    async def open(self, partition: int, rows: PartitionRows) -> PartitionRows:
        """Take the partition over, then redo what the journal knows and the rows do not.

        What a former owner has written after the rows were read, it had in the journal before: it
        is redone here, and written once more. What it would write from now on the brokers refuse.
        """
        await self._publisher.start()
        known = self._known(partition, rows.get(row_key(partition, "", POSITION)))
        with self._in_a_hurry():
            async with self._flushing:  # rows of ours may be on their way through the claim before
                await self._writer.claim(partition)
        opened = await self._publisher.append(
            journal.TOPIC, partition, [journal.opening(partition)]
        )
        if opened <= known.offset:
            raise journal.JournalDamaged(
                partition,
                f"topic {journal.TOPIC}, partition {partition} ends at offset {opened + 1}, but the tables "
                f"reflect it up to {known.offset}: it was deleted and created again, or the broker has lost "
                f"its end",
            )
        reader = journal.Reader(known, partition)
        changes = await self._publish_tail(reader, partition, known.offset + 1, opened + 1)
        redone = dict(rows)
        # Whole from now on, and written by the next flush: another rebalance may have begun
        # meanwhile, which drops the tables' rows and has another worker write them.
        whole = Changes()
        for change in changes.rows(rows.get):
            whole.add(change.key, change.value)
            if change.value is None:
                redone.pop(change.key, None)
            else:
                redone[change.key] = change.value
        self._ends[partition] = self._places[partition] = reader.place
        self._owned_at_s[partition] = time.monotonic()
        self._unwritten[partition] = whole
        if self._checkpoints is not None:
            self._checkpoints.opened(partition, rows.get(row_key(partition, "", PARTITION)))
        return redone

    def _known(self, partition: int, value: bytes | None) -> journal.Place:
        """The place in the journal that the rows reflect, by the row that says so.

        Raises:
            DamagedTable: it cannot be read.
            TopicChanged: it names another id of a topic.
        """
        if value is None:
            return journal.Place()
        row = decode_as(JournalPositionRow, value)
        if isinstance(row, Refusal):
            raise DamagedTable(row_key(partition, "", POSITION), f"cannot be read: {row.reason}")
        check_ids(row.topic_ids, self.topic_ids, self._settings.partitions)
        return journal.Place(row.epoch, row.sequence, row.offset)

    async def _publish_tail(
        self, reader: journal.Reader, partition: int, begin: int, end: int
    ) -> Changes:
        """Publish the outputs of the journal from one offset to another; answers with its rows."""
        changes = Changes()
        # Piece by piece: after a long time without written rows the tail is of any length.
        async for entries in read_pieces(self._settings, journal.TOPIC, partition, begin, end):
            tail = journal.go_on(reader, ((entry.offset, entry.value) for entry in entries))
            await self._publisher.publish((*tail.outputs, *passed_over(reader, partition, entries)))
            for key, value in tail.rows.items():
                changes.add(key, value)
        return changes

    async def append(self, batches: Sequence[Applied]) -> Journaled:
        """Append the batches, each to the journal of its partition.

        Raises:
            LostOwnership: another worker has taken a partition over; nothing of these may be
                published.
        """
        return Journaled(batches, await asyncio.gather(*map(self._append, batches)))

    async def commit(self, journaled: Journaled) -> None:
        """Publish outputs; rows are written when they are due."""
        await self._publisher.publish(journaled.published)
        # Not before: a place that is written says that all up to it was published.
        for batch, place in zip(journaled.batches, journaled.places, strict=True):
            if (before := self._places.get(batch.partition)) is None or before.epoch != place.epoch:
                continue  # the next batch has found out that the partition is another worker's
            self._places[batch.partition] = place
            unwritten = self._unwritten[batch.partition]
            for row in batch.result.rows:
                unwritten.add(row.key, row.value)

    async def flush(self, *, force: bool = False) -> None:
        """Write rows when they have waited long enough, or are many; batches may be committed
        meanwhile.

        Those of a partition that may be another worker's by now stay: its owner redoes them.
        """
        if not force:
            await self._flush(due=False)
            return
        with self._in_a_hurry():
            await self._flush(due=True)

    def unwritten(self, partition: int) -> Sequence[Changes]:
        """Those on their way to the tables, then those that wait."""
        layers = (self._writing.get(partition), self._unwritten.get(partition))
        return [layer for layer in layers if layer is not None]

    def close(self, partition: int) -> None:
        """Forget the partition; its rows were flushed, or are redone by its next owner."""
        self._writer.release(partition)
        self._ends.pop(partition, None)
        self._places.pop(partition, None)
        self._owned_at_s.pop(partition, None)
        self._unwritten.pop(partition, None)
        if self._checkpoints is not None:
            self._checkpoints.closed(partition)

    async def _flush(self, *, due: bool) -> None:
        async with self._flushing:
            count = self._unwritten_rows()
            interval_s = FLUSH_INTERVAL_S if count <= FEW_ROWS else UNWRITTEN_S
            waited_s = time.monotonic() - self._flushed_at_s
            if due or count >= UNWRITTEN_ROWS_MAX or waited_s >= interval_s:
                self._flushed_at_s = time.monotonic()
                for partition in sorted(self._unwritten):
                    await self._write(partition)

    def _unwritten_rows(self) -> int:
        return sum(map(len, self._unwritten.values()))

    @contextmanager
    def _in_a_hurry(self) -> Iterator[None]:
        """Rows that are being written are written without rests: this waits for them."""
        self._awaited += 1
        try:
            yield
        finally:
            self._awaited -= 1

    async def _append(self, batch: Applied) -> journal.Place:
        """Write a batch to the journal; answers with the place that it ends at."""
        partition, place = batch.partition, self._ends[batch.partition]
        self._ends[partition] = now = await self._append_after(place, batch)
        return now

    async def _append_after(self, place: journal.Place, batch: Applied) -> journal.Place:
        partition = batch.partition
        records = journal.batch(partition, place, batch.records, batch.result)
        began_s = time.monotonic()
        offset = await self._publisher.append(journal.TOPIC, partition, records)
        if offset == place.offset + len(records):
            self._owned_at_s[partition] = began_s
            return journal.Place(place.epoch, place.sequence + 1, offset)
        if offset <= place.offset:
            raise journal.JournalDamaged(
                partition,
                f"topic {journal.TOPIC}, partition {partition} ended at offset {place.offset + 1} and ends at "
                f"{offset + 1} now: it was deleted and created again, or the broker has lost its end",
            )
        # Another writer has written in between: a successor, or a predecessor that does not know
        # yet.
        reader = journal.Reader(place, partition)
        dead: list[OutputRecord] = []
        async for entries in read_pieces(
            self._settings, journal.TOPIC, partition, place.offset + 1, offset + 1
        ):
            for entry in entries:
                reader.take(entry.offset, entry.value)
            dead += passed_over(reader, partition, entries)
        now = reader.place
        if now.epoch != place.epoch:
            self.close(partition)
            raise LostOwnership(
                f"another worker took partition {partition} over at journal offset {now.epoch}, while "
                f"this one ({place.epoch}) held it for its own: {UNKNOWN_OWNER}. What it has decided "
                "since counts for nothing; start it again"
            )
        await self._publisher.publish(dead)
        # Not before: rows may be written meanwhile, and must not be by a worker that has
        # lost the partition.
        self._owned_at_s[partition] = began_s
        return now

    async def _write(self, partition: int) -> None:
        """Write the rows as they are now, piece by piece; their place comes last, for all of them."""
        changes, place = self._unwritten.get(partition), self._places.get(partition)
        if not changes or place is None or not self._owned(partition):
            return
        self._unwritten[partition] = Changes()
        self._writing[partition] = changes
        written = False
        try:
            written = await self._write_pieces(partition, changes, place)
        finally:
            self._writing.pop(partition, None)
            # Otherwise some rows are ahead of their place now, and are redone by the stage that
            # goes on from it.
            now = self._places.get(partition)
            if not written and now is not None and now.epoch == place.epoch:
                for change in self._unwritten[partition]:
                    changes.add(change.key, change.value)
                self._unwritten[partition] = changes
        # Nothing has been waited for since: the local rows are those of this place, all of them and
        # no newer ones.
        if written and self._checkpoints is not None and self._still(partition, place):
            clock = self._writer.row(row_key(partition, "", PARTITION))
            self._checkpoints.written(partition, place, clock, self._writer.references)

    async def _write_pieces(self, partition: int, changes: Changes, place: journal.Place) -> bool:
        """Whether all were written: not once the partition may be another worker's."""
        piece: list[RowChange] = []
        size = 0
        pace = Pace()
        for row in changes.rows(self._writer.row):
            piece.append(row)
            size += len(row.value or b"")
            if pace.over:
                many = self._unwritten_rows() >= UNWRITTEN_ROWS_MAX
                await pace.rest(hurry=many or self._awaited > 0)
            if size >= PIECE_BYTES:
                if not self._still(partition, place):
                    return False
                await self._writer.write(partition, piece)
                piece, size = [], 0
        reached = JournalPositionRow(
            partition=partition,
            epoch=place.epoch,
            sequence=place.sequence,
            offset=place.offset,
            topic_ids=dict(self.topic_ids),
        )
        position = RowChange(row_key(partition, "", POSITION), encode(reached))
        # The position is written when the brokers have acknowledged all other rows.
        for last in (piece, [position]):
            if not self._still(partition, place):
                return False
            await self._writer.write(partition, last)
        return True

    def _still(self, partition: int, place: journal.Place) -> bool:
        """Owned ever since `place`; otherwise rows may be packed with what others wrote."""
        now = self._places.get(partition)
        return now is not None and now.epoch == place.epoch and self._owned(partition)

    def _owned(self, partition: int) -> bool:
        """The journal has shown a moment ago that the partition is ours."""
        shown_at_s = self._owned_at_s.get(partition)
        return shown_at_s is not None and time.monotonic() - shown_at_s <= OWNED_S
