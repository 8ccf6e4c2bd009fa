"""Durability of the aggregate stage: outputs, then all changed rows.

After a crash between these steps, the same outputs are published again. A worker that takes over a
partition first claims its changelog, so that former owners cannot write rows (see `fence`). Then it reads
the rows that former owners have written since Faust recovered the table. A former owner that continues
publishes the outputs of at most one batch, which its successor publishes as well, and fails when it writes
rows.
"""

import asyncio
from collections.abc import Mapping, Sequence
from itertools import chain

from connectors.kafka.partition_records import read_range
from schemas.settings.connection import KafkaSettings
from schemas.storage.percentiles import TopicIds
from schemas.storage.tables import row_key
from schemas.topics.codec import encode
from streams.stage.journal import JournalPosition
from streams.stage.packing import Changes
from streams.stage.records import AppliedBatch, PartitionRows, RowChange, read_row
from streams.worker.store.fence import FencedPublisher
from streams.worker.store.topic_watch import check_ids
from streams.worker.tables import RowTable


class WriteThrough:
    topics: tuple[str, ...] = ()
    """Topics that state is restored from, in addition to inputs and changelogs."""

    def __init__(
        self, settings: KafkaSettings, publisher: FencedPublisher, table: RowTable
    ) -> None:
        self._settings = settings
        self._publisher = publisher
        self._table = table

    async def open(
        self, partition: int, rows: PartitionRows, topic_ids: Mapping[str, str]
    ) -> PartitionRows:
        """Claim the partition, and return its rows.

        Raises:
            DamagedTable: a row cannot be read.
            TopicChanged: the id of a topic differs from the id in the rows.
        """
        await self._publisher.start()
        changelog = self._table.changelog
        claimed = await self._publisher.claim([changelog], partition)
        recovered = self._table.get_recovered_offset(partition)
        entries = await read_range(
            self._settings, changelog, partition, recovered + 1, claimed[changelog]
        )
        self._table.store(RowChange((entry.key or b"").decode(), entry.value) for entry in entries)
        newest = self._table.read_rows([partition])[partition]
        changes = self._table.list_orphan_removals(partition)
        key = row_key(partition, "", "topics")
        stored = newest.pop(key, None)
        stored_ids = {} if stored is None else read_row(key, stored).ids
        check_ids(stored_ids, topic_ids, self._settings.partitions)
        if stored_ids != topic_ids:
            changes.append(RowChange(key, encode(TopicIds(ids=dict(topic_ids)))))
        await self._write(partition, changes)
        return newest

    async def append(self, batches: Sequence[AppliedBatch]) -> list[JournalPosition]:
        """Return nothing: there is no journal."""
        return []

    async def commit(
        self, batches: Sequence[AppliedBatch], positions: Sequence[JournalPosition] = ()
    ) -> None:
        """Publish outputs, then write rows. Raises LostOwnership."""
        await self._publisher.publish(
            chain.from_iterable(batch.result.published for batch in batches)
        )
        await asyncio.gather(
            *(
                self._write(batch.partition, self._table.split_changes(batch.result.rows))
                for batch in batches
            )
        )

    async def flush(self, *, force: bool = False) -> None:
        """Do nothing, because `commit` writes all rows."""

    def list_unwritten(self, partition: int) -> Sequence[Changes]:
        return ()

    def close(self, partition: int) -> None:
        self._publisher.release(partition)

    async def _write(self, partition: int, records: Sequence[RowChange]) -> None:
        if records:
            await self._publisher.write_rows(partition, {self._table.changelog: records})
            self._table.store(records)
