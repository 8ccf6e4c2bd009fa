"""Durability of the cluster stage: journal, then outputs, rows later. So decisions are made once.

A batch is written to the journal first. When that is acknowledged, its outputs are published, while the
next batch is written to the journal. Rows are written every few seconds (`lazy_rows`); after a crash,
the batches at the end of the journal are applied to them.
"""

import asyncio
import logging
import time
from collections.abc import Collection, Mapping, Sequence
from itertools import chain

from connectors.kafka.partition_records import read_pieces
from connectors.kafka.reader import Gap, Record
from schemas.settings.connection import KafkaSettings
from schemas.storage.rows import JournalPositionRow
from schemas.storage.tables import PARTITION, POSITION, row_key
from streams.stage import journal
from streams.stage.packing import Changes
from streams.stage.records import (
    AppliedBatch,
    OutputRecord,
    PartitionRows,
    build_dead_letters,
    read_row,
)
from streams.worker.packed_messages import convert_to_input
from streams.worker.store.lazy_rows import LazyRows, OwnedPartition
from streams.worker.store.publisher import UNKNOWN_OWNER, LostOwnership, Publisher
from streams.worker.store.topic_watch import check_ids

logger = logging.getLogger(__name__)


class JournalFirst:
    topics: tuple[str, ...] = (journal.TOPIC,)
    """Topics from which state is restored, besides inputs and changelogs."""

    def __init__(self, settings: KafkaSettings, publisher: Publisher, rows: LazyRows) -> None:
        self._settings = settings
        self._publisher = publisher
        self._rows = rows

    async def open(
        self, partition: int, rows: PartitionRows, topic_ids: Mapping[str, str]
    ) -> PartitionRows:
        """Take over the partition, and apply the newest batches of the journal to its rows.

        Rows that a former owner writes after these rows were read are in the journal as well: they are
        applied here, and written again. From now on the brokers refuse its rows.

        Args:
            partition: number of the partition.
            rows: its rows in the tables.
            topic_ids: known ids of topics.

        Returns:
            The newest rows.

        Raises:
            DamagedTable: the row with the journal position cannot be read.
            JournalDamaged: the journal cannot be read.
            TopicChanged: the rows have another id of a topic.
        """
        await self._publisher.start()
        stored_position = self._read_place(
            partition, rows.get(row_key(partition, "", POSITION)), topic_ids
        )
        await self._rows.claim(partition)
        opening_offset = await self._publisher.append(
            journal.TOPIC, partition, [journal.encode_opening(partition)]
        )
        if opening_offset <= stored_position.offset:
            raise journal.JournalDamaged(
                partition,
                f"topic {journal.TOPIC}, partition {partition} ends at offset {opening_offset + 1}, but the tables "
                f"reflect it up to offset {stored_position.offset}: the topic was created again, or the broker has lost "
                f"records",
            )
        reader = journal.JournalReader(stored_position, partition)
        changes = await self._publish_tail(
            reader, partition, stored_position.offset + 1, opening_offset + 1
        )
        newest = dict(rows)
        # Complete rows, to be written by the next flush. Packing them later would need the rows of the
        # tables, which another rebalance may drop meanwhile.
        unwritten = Changes()
        for change in changes.pack_rows(rows.get):
            unwritten.add(change.key, change.value)
            if change.value is None:
                newest.pop(change.key, None)
            else:
                newest[change.key] = change.value
        owned = OwnedPartition(
            partition,
            dict(topic_ids),
            reader.position,
            reader.position,
            time.monotonic(),
            unwritten,
        )
        self._rows.open(owned, rows.get(row_key(partition, "", PARTITION)))
        return newest

    async def append(self, batches: Sequence[AppliedBatch]) -> list[journal.JournalPosition]:
        """Append each batch to the journal of its partition; return the new positions.

        Raises:
            LostOwnership: another worker owns a partition; the outputs must not be published.
        """
        return await asyncio.gather(*map(self._append, batches))

    async def commit(
        self, batches: Sequence[AppliedBatch], positions: Sequence[journal.JournalPosition]
    ) -> None:
        """Publish the outputs of appended batches, in the order of appending.

        Their rows are written later. Other batches may be appended meanwhile.
        """
        await self._publisher.publish(
            chain.from_iterable(batch.result.published for batch in batches)
        )
        # Not before: a stored journal position means that all outputs up to it are published.
        for batch, position in zip(batches, positions, strict=True):
            owned = self._rows.partitions.get(batch.partition)
            if owned is None or owned.published.epoch != position.epoch:
                continue  # a later batch has found that another worker owns the partition
            owned.published = position
            for row in batch.result.rows:
                owned.unwritten.add(row.key, row.value)

    async def flush(self, *, force: bool = False) -> None:
        """Write rows that are due; with `force`, all changed rows."""
        await self._rows.flush(force=force)

    def unwritten(self, partition: int) -> Sequence[Changes]:
        """Return durable changes that the tables may lack, oldest first."""
        return self._rows.unwritten(partition)

    def close(self, partition: int) -> None:
        self._rows.close(partition)

    def _read_place(
        self, partition: int, value: bytes | None, topic_ids: Mapping[str, str]
    ) -> journal.JournalPosition:
        if value is None:
            return journal.JournalPosition()
        row: JournalPositionRow = read_row(row_key(partition, "", POSITION), value)
        check_ids(row.topic_ids, topic_ids, self._settings.partitions)
        return journal.JournalPosition(row.epoch, row.sequence, row.offset)

    async def _publish_tail(
        self, reader: journal.JournalReader, partition: int, begin: int, end: int
    ) -> Changes:
        """Publish the outputs of a range of the journal; return its rows."""
        changes = Changes()
        async for entries in read_pieces(
            self._settings, journal.TOPIC, partition, begin, end, _refuse_deleted
        ):
            tail = journal.read_tail(reader, ((entry.offset, entry.value) for entry in entries))
            dead = _build_foreign_letters(reader, partition, entries)
            await self._publisher.publish((*tail.outputs, *dead))
            for key, value in tail.rows.items():
                changes.add(key, value)
        return changes

    async def _append(self, batch: AppliedBatch) -> journal.JournalPosition:
        partition = batch.partition
        owned = self._rows.partitions[partition]
        position = owned.appended
        records = journal.encode_batch(partition, position, batch.records, batch.result)
        began_s = time.monotonic()
        offset = await self._publisher.append(journal.TOPIC, partition, records)
        if offset == position.offset + len(records):
            owned.appended = journal.JournalPosition(position.epoch, position.sequence + 1, offset)
        elif offset > position.offset:
            owned.appended = await self._read_other_writers(partition, position, offset + 1)
        else:
            raise journal.JournalDamaged(
                partition,
                f"topic {journal.TOPIC}, partition {partition} ended at offset {position.offset + 1} and now ends "
                f"at {offset + 1}: the topic was created again, or the broker has lost records",
            )
        # The time before the append, because another worker may take over during it.
        owned.owned_at_s = began_s
        return owned.appended

    async def _read_other_writers(
        self, partition: int, position: journal.JournalPosition, end: int
    ) -> journal.JournalPosition:
        """Read the records of another writer; return the new position.

        Raises:
            LostOwnership: the writer is a newer owner of the partition, not an older one.
        """
        reader = journal.JournalReader(position, partition)
        dead: list[OutputRecord] = []
        async for entries in read_pieces(
            self._settings, journal.TOPIC, partition, position.offset + 1, end, _refuse_deleted
        ):
            for entry in entries:
                reader.feed(entry.offset, entry.value)
            dead += _build_foreign_letters(reader, partition, entries)
        now = reader.position
        if now.epoch != position.epoch:
            self.close(partition)
            raise LostOwnership(
                f"another worker took over partition {partition} at journal offset {now.epoch}, and this one "
                f"(epoch {position.epoch}) did not notice: {UNKNOWN_OWNER}. Its decisions since then do not "
                "count; start this worker again"
            )
        await self._publisher.publish(dead)
        return now


def _refuse_deleted(gap: Gap) -> None:
    raise journal.JournalDamaged(
        gap.partition,
        f"the journal offsets {gap.first_offset} to {gap.next_offset - 1} were deleted; the retention may be "
        f"shorter than the time without a worker",
    )


def _build_foreign_letters(
    reader: journal.JournalReader, partition: int, entries: Collection[Record]
) -> list[OutputRecord]:
    """Return dead letters for the foreign records among the entries that were read last."""
    records = {entry.offset: convert_to_input(entry) for entry in entries}
    dead: list[OutputRecord] = []
    for foreign in reader.take_foreign():
        reason = foreign.refusal.reason
        logger.warning("journal offset %d was skipped: %s", foreign.offset, reason)
        dead += build_dead_letters(records[foreign.offset], foreign.refusal)
    return dead
