"""Durability of the cluster stage: journal, then outputs, rows later. So decisions are made once.

A batch is written to the journal first. When the journal record is acknowledged, the outputs are published,
while the next batch is written to the journal. Rows are written every few seconds (`row_writer`); after a
crash, the last batches of the journal are applied to the rows.
"""

import asyncio
import logging
import time
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain

from connectors.kafka.partition_records import read_pieces
from connectors.kafka.reader import Gap, Record
from schemas.base.refusals import Refusal
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
from streams.worker.store.publisher import LOST_OWNERSHIP_REASONS, LostOwnership, Publisher
from streams.worker.store.row_writer import OwnedPartition, RowWriter
from streams.worker.store.topic_watch import check_ids

logger = logging.getLogger(__name__)


class JournalFirst:
    topics: tuple[str, ...] = (journal.TOPIC,)
    """Topics that state is restored from, in addition to inputs and changelogs."""

    def __init__(self, settings: KafkaSettings, publisher: Publisher, rows: RowWriter) -> None:
        self._settings = settings
        self._publisher = publisher
        self._rows = rows

    async def open(
        self, partition: int, rows: PartitionRows, topic_ids: Mapping[str, str]
    ) -> PartitionRows:
        """Take over the partition, and return its rows with the newest batches of the journal.

        The brokers refuse rows of former owners after this call. Rows that a former owner wrote after
        `rows` were read are in the journal as well, so they are written again.

        Raises:
            DamagedTable: the row with the journal position cannot be read.
            JournalDamaged: the journal cannot be read.
            TopicChanged: the id of a topic differs from the id in the rows.
        """
        await self._publisher.start()
        stored_position = self._read_position(
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
                f"contain its rows up to offset {stored_position.offset}: the topic was created again, or the broker "
                f"has lost records",
            )
        reader = journal.JournalReader(stored_position, partition)
        changes = await self._publish_tail(
            reader, partition, stored_position.offset + 1, opening_offset + 1
        )
        newest = dict(rows)
        # The next flush writes these complete rows. Packing them later would need the rows of the tables,
        # which another rebalance may drop meanwhile.
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
        """Publish the outputs of appended batches, in order; other batches may be appended meanwhile."""
        await self._publisher.publish(
            chain.from_iterable(batch.result.published for batch in batches)
        )
        # Only now, because all outputs before a stored journal position must be published.
        for batch, position in zip(batches, positions, strict=True):
            owned = self._rows.partitions.get(batch.partition)
            if owned is None or owned.published.epoch != position.epoch:
                continue  # a later batch has shown that another worker owns the partition
            owned.published = position
            for row in batch.result.rows:
                owned.unwritten.add(row.key, row.value)

    async def flush(self, *, force: bool = False) -> None:
        """Write rows that are due; with `force`, all changed rows."""
        await self._rows.flush(force=force)

    def list_unwritten(self, partition: int) -> Sequence[Changes]:
        """Return durable changes that may be missing in the tables, oldest first."""
        return self._rows.list_unwritten(partition)

    def close(self, partition: int) -> None:
        self._rows.close(partition)

    def _read_position(
        self, partition: int, value: bytes | None, topic_ids: Mapping[str, str]
    ) -> journal.JournalPosition:
        if value is None:
            return journal.JournalPosition()
        row: JournalPositionRow = read_row(row_key(partition, "", POSITION), value)
        check_ids(row.topic_ids, topic_ids, self._settings.partitions)
        return journal.JournalPosition(row.epoch, row.sequence, row.offset)

    async def _publish_tail(
        self, reader: journal.JournalReader, partition: int, first: int, end: int
    ) -> Changes:
        """Publish the outputs of a range of the journal; return its rows."""
        changes = Changes()
        async for entries in read_pieces(
            self._settings, journal.TOPIC, partition, first, end, _refuse_deleted
        ):
            batches, dead_letters = _read_batches(reader, entries)
            outputs = chain.from_iterable(batch.outputs for batch in batches)
            await self._publisher.publish((*outputs, *dead_letters))
            for row in chain.from_iterable(batch.rows for batch in batches):
                changes.add(row.key, row.value)
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
        # The time before the append, because another worker may take over during the append.
        owned.owned_at_s = began_s
        return owned.appended

    async def _read_other_writers(
        self, partition: int, position: journal.JournalPosition, end: int
    ) -> journal.JournalPosition:
        """Read the records of another writer; return the new position.

        Raises:
            LostOwnership: the other writer is a newer owner of the partition.
        """
        reader = journal.JournalReader(position, partition)
        dead_letters: list[OutputRecord] = []
        async for entries in read_pieces(
            self._settings, journal.TOPIC, partition, position.offset + 1, end, _refuse_deleted
        ):
            dead_letters += _read_batches(reader, entries)[1]
        epoch = reader.position.epoch
        if epoch != position.epoch:
            self.close(partition)
            raise LostOwnership(
                f"another worker took over partition {partition} at journal offset {epoch}, and this worker (epoch "
                f"{position.epoch}) did not notice: {LOST_OWNERSHIP_REASONS}. Later decisions of this worker have no "
                "effect; start it again"
            )
        await self._publisher.publish(dead_letters)
        return reader.position


def _refuse_deleted(gap: Gap) -> None:
    raise journal.JournalDamaged(
        gap.partition,
        f"the journal offsets {gap.first_offset} to {gap.next_offset - 1} were deleted; no worker may have run for "
        f"longer than the retention",
    )


def _read_batches(
    reader: journal.JournalReader, entries: Iterable[Record]
) -> tuple[list[journal.JournalBatch], list[OutputRecord]]:
    """Return the batches that the entries complete, and dead letters for foreign records."""
    batches: list[journal.JournalBatch] = []
    dead_letters: list[OutputRecord] = []
    for entry in entries:
        result = reader.feed(entry.offset, entry.value)
        if isinstance(result, Refusal):
            logger.warning("journal offset %d was skipped: %s", entry.offset, result.reason)
            dead_letters += build_dead_letters(convert_to_input(entry), result)
        elif result is not None:
            batches.append(result)
    return batches, dead_letters
