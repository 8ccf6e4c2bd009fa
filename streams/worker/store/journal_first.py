"""The journal first, then outputs, rows lazily: decisions are made once.

A batch is written to the journal before anything else. Outputs follow when the journal is
acknowledged, while the next batch is written to the journal already. Rows are written lazily
(`lazy_rows`); after a crash the journal's tail is redone over them.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from connectors.kafka.reader import Gap, Record
from schemas.settings.connection import KafkaSettings
from schemas.storage.rows import JournalPositionRow
from schemas.storage.tables import PARTITION, POSITION, row_key
from streams.stage import journal
from streams.stage.dead_letters import build_dead_letters
from streams.stage.packing import Changes
from streams.stage.records import AppliedBatch, OutputRecord, PartitionRows, read_row
from streams.worker.reader import as_input, read_pieces
from streams.worker.store.lazy_rows import LazyRows, OwnedPartition
from streams.worker.store.publisher import UNKNOWN_OWNER, LostOwnership, Publisher
from streams.worker.store.topic_watch import check_ids

logger = logging.getLogger(__name__)


class JournalFirst:
    """Durability of a stage whose decisions are made once."""

    topics: tuple[str, ...] = (journal.TOPIC,)
    """Topics from which state is restored, besides inputs and changelogs."""

    def __init__(self, settings: KafkaSettings, publisher: Publisher, rows: LazyRows) -> None:
        self._settings = settings
        self._publisher = publisher
        self._rows = rows

    async def open(
        self, partition: int, rows: PartitionRows, topic_ids: Mapping[str, str]
    ) -> PartitionRows:
        """Take the partition over, then redo what the journal knows and the rows do not.

        Rows that a former owner has written after these rows were read were in the journal before:
        they are redone here, and written once more. The brokers refuse its rows from now on.

        Raises:
            DamagedTable: the row that names the journal position cannot be read.
            JournalDamaged: the journal cannot be followed.
            TopicChanged: the rows name another id of a topic.
        """
        await self._publisher.start()
        known = self._read_place(partition, rows.get(row_key(partition, "", POSITION)), topic_ids)
        await self._rows.claim(partition)
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
        reader = journal.JournalReader(known, partition)
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
        owned = OwnedPartition(
            partition, dict(topic_ids), reader.place, reader.place, time.monotonic(), whole
        )
        self._rows.open(owned, rows.get(row_key(partition, "", PARTITION)))
        return redone

    async def append(self, batches: Sequence[AppliedBatch]) -> list[journal.JournalPlace]:
        """Append the batches, each to the journal of its partition; return where each ends.

        Raises:
            LostOwnership: another worker has taken a partition over; nothing of these may be
                published.
        """
        return await asyncio.gather(*map(self._append, batches))

    async def commit(
        self, batches: Sequence[AppliedBatch], places: Sequence[journal.JournalPlace]
    ) -> None:
        """Publish the outputs of batches that are in the journal, in the order of appending.

        Rows are written when they are due. Later batches may be appended meanwhile.
        """
        await self._publisher.publish(
            chain.from_iterable(batch.result.published for batch in batches)
        )
        # Not before: a place that is written says that all up to it was published.
        for batch, place in zip(batches, places, strict=True):
            owned = self._rows.partitions.get(batch.partition)
            if owned is None or owned.published.epoch != place.epoch:
                continue  # the next batch has found out that the partition is another worker's
            owned.published = place
            for row in batch.result.rows:
                owned.unwritten.add(row.key, row.value)

    async def flush(self, *, force: bool = False) -> None:
        """Write rows that are due; all if forced."""
        await self._rows.flush(force=force)

    def unwritten(self, partition: int) -> Sequence[Changes]:
        """Changes of rows that are durable and that the tables may lack, the oldest first."""
        return self._rows.unwritten(partition)

    def close(self, partition: int) -> None:
        """The partition belongs to another worker now."""
        self._rows.close(partition)

    def _read_place(
        self, partition: int, value: bytes | None, topic_ids: Mapping[str, str]
    ) -> journal.JournalPlace:
        """The place in the journal that the rows reflect, by the row that says so."""
        if value is None:
            return journal.JournalPlace()
        row: JournalPositionRow = read_row(row_key(partition, "", POSITION), value)
        check_ids(row.topic_ids, topic_ids, self._settings.partitions)
        return journal.JournalPlace(row.epoch, row.sequence, row.offset)

    async def _publish_tail(
        self, reader: journal.JournalReader, partition: int, begin: int, end: int
    ) -> Changes:
        """Publish the outputs of the journal from one offset to another; return its rows."""
        changes = Changes()
        # Piece by piece: after a long time without written rows the tail is of any length.
        async for entries in read_pieces(
            self._settings, journal.TOPIC, partition, begin, end, _refuse_deleted
        ):
            tail = journal.follow_with(reader, ((entry.offset, entry.value) for entry in entries))
            dead = _bury_foreign(reader, partition, entries)
            await self._publisher.publish((*tail.outputs, *dead))
            for key, value in tail.rows.items():
                changes.add(key, value)
        return changes

    async def _append(self, batch: AppliedBatch) -> journal.JournalPlace:
        """Write a batch to the journal; return the place that it ends at."""
        partition = batch.partition
        owned = self._rows.partitions[partition]
        place = owned.appended
        records = journal.batch(partition, place, batch.records, batch.result)
        began_s = time.monotonic()
        offset = await self._publisher.append(journal.TOPIC, partition, records)
        if offset == place.offset + len(records):
            owned.appended = journal.JournalPlace(place.epoch, place.sequence + 1, offset)
        elif offset > place.offset:
            owned.appended = await self._read_others(partition, place, offset + 1)
        else:
            raise journal.JournalDamaged(
                partition,
                f"topic {journal.TOPIC}, partition {partition} ended at offset {place.offset + 1} and ends at "
                f"{offset + 1} now: it was deleted and created again, or the broker has lost its end",
            )
        # Not before: rows may be written meanwhile, and must not be by a worker that has lost the
        # partition.
        owned.owned_at_s = began_s
        return owned.appended

    async def _read_others(
        self, partition: int, place: journal.JournalPlace, end: int
    ) -> journal.JournalPlace:
        """Read on where another writer has written: a successor, or a predecessor that does not
        know yet that it is one.

        Raises:
            LostOwnership: it is a successor.
        """
        reader = journal.JournalReader(place, partition)
        dead: list[OutputRecord] = []
        async for entries in read_pieces(
            self._settings, journal.TOPIC, partition, place.offset + 1, end, _refuse_deleted
        ):
            for entry in entries:
                reader.take(entry.offset, entry.value)
            dead += _bury_foreign(reader, partition, entries)
        now = reader.place
        if now.epoch != place.epoch:
            self.close(partition)
            raise LostOwnership(
                f"another worker took partition {partition} over at journal offset {now.epoch}, while "
                f"this one ({place.epoch}) held it for its own: {UNKNOWN_OWNER}. What it has decided "
                "since counts for nothing; start it again"
            )
        await self._publisher.publish(dead)
        return now


def _refuse_deleted(gap: Gap) -> None:
    raise journal.JournalDamaged(
        gap.partition,
        f"journal offsets {gap.first_offset} to {gap.next_offset - 1} are gone; retention may be "
        f"shorter than a worker was away",
    )


def _bury_foreign(
    reader: journal.JournalReader, partition: int, entries: Collection[Record]
) -> list[OutputRecord]:
    """Dead letters of the foreign records among the entries, which the reader has just read."""
    records = {entry.offset: as_input(entry) for entry in entries}
    dead: list[OutputRecord] = []
    for foreign in reader.take_foreign():
        reason = foreign.refusal.reason
        logger.warning("journal offset %d was passed over: %s", foreign.offset, reason)
        dead += build_dead_letters(records[foreign.offset], foreign.refusal)
    return dead
