"""Journal first, on a broker: ownership of a partition, and what a new owner redoes."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from confluent_kafka import TopicPartition

from connectors.brokers.embedded import EmbeddedBroker
from connectors.kafka.client import connect
from connectors.kafka.partition_records import read_range
from schemas.settings.connection import KafkaSettings
from schemas.topics.partitions import partition_for
from streams.stage.journal import JournalDamaged
from streams.stage.records import AppliedBatch, InputRecord, OutputRecord, RowChange, StageResult
from streams.worker import event_loop
from streams.worker.consume.transport import WorkerApp, broker_urls
from streams.worker.store import row_writer
from streams.worker.store.fence import FencedPublisher
from streams.worker.store.journal_first import JournalFirst
from streams.worker.store.publisher import LostOwnership, Publisher
from streams.worker.store.row_writer import RowWriter
from streams.worker.tables import RowTable
from tests.conftest import RunningBroker

_PARTITIONS = 4
_DECISIONS = "placement-decisions"
_PARTITION_OF_C = partition_for(b"c", _PARTITIONS)


class Owner:
    """The part of a worker with a journal and rows."""

    def __init__(self, kafka: KafkaSettings) -> None:
        app: Any = WorkerApp("test", broker=broker_urls(kafka), store="memory://")
        self.tables = [RowTable(app, name, _PARTITIONS) for name in ("nodes", "cluster")]
        self.publisher = FencedPublisher(kafka)
        self.journal = JournalFirst(kafka, self.publisher, RowWriter(self.tables, self.publisher))

    async def open(self) -> dict[str, bytes]:
        """Take partition 0 over, with the rows that this owner has."""
        nodes, cluster = (table.read_rows([0])[0] for table in self.tables)
        return await self.journal.open(0, nodes | cluster, {})

    async def commit(self, batch: AppliedBatch) -> None:
        """Journal, then outputs."""
        await self.journal.commit([batch], await self.journal.append([batch]))

    def rows(self) -> dict[str, bytes]:
        """Rows of table `nodes` that are written."""
        return self.tables[0].read_rows([0])[0]


@asynccontextmanager
async def owner(kafka: KafkaSettings) -> AsyncIterator[Owner]:
    """An owner; its producer is stopped afterwards."""
    it = Owner(kafka)
    try:
        yield it
    finally:
        await it.publisher.stop()


def _batch(offset: int, **output: Any) -> AppliedBatch:
    """One record that changes the row of node n and gives one decision."""
    value = b'{"offset": %d}' % offset
    record = InputRecord("node-state", 0, offset, b"c", b"{}", 0)
    result = StageResult(
        (OutputRecord(_DECISIONS, "c", value, 0, **output),), (RowChange("0/c/nodes/n", value),)
    )
    return AppliedBatch(0, [record], result)


async def _published(kafka: KafkaSettings, publisher: Publisher, partition: int = 0) -> list[bytes]:
    """The published decisions; a marker shows where they end."""
    end = await publisher.append(_DECISIONS, partition, [b"end"])
    entries = await read_range(kafka, _DECISIONS, partition, 0, end)
    return [entry.value or b"" for entry in entries if entry.value != b"end"]


async def test_a_worker_that_has_lost_its_partition_publishes_and_writes_nothing(
    embedded: RunningBroker,
) -> None:
    kafka = embedded.settings
    async with owner(kafka) as old, owner(kafka) as new:
        await old.open()
        await old.commit(_batch(0, partition=0))
        redone = await new.open()
        assert redone["0/c/nodes/n"] == b'{"offset": 0}', "the tail is redone"

        with pytest.raises(LostOwnership, match="partition 0"):
            await old.commit(_batch(1, partition=0))
        await old.journal.flush(force=True)
        assert old.rows() == {}, "its rows are its successor's to write"

        # The journal now has a record of the old owner, which is ignored.
        await new.commit(_batch(1, partition=0))
        await new.journal.flush(force=True)
        assert new.rows() == {"0/c/nodes/n": b'{"offset": 1}'}
        decisions = await _published(kafka, new.publisher)
        assert [value for value in decisions if b"1" in value] == [b'{"offset": 1}']


async def test_a_suspended_worker_leaves_its_rows_to_its_successor(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with owner(embedded.settings) as old:
        await old.open()
        await old.commit(_batch(0))
        with monkeypatch.context() as stood_still:
            stood_still.setattr(row_writer, "OWNED_S", -1.0)
            await old.journal.flush(force=True)
        assert old.rows() == {}
        await old.commit(_batch(1))
        await old.journal.flush(force=True)
        assert old.rows() == {"0/c/nodes/n": b'{"offset": 1}'}, (
            "the journal says that it is still the owner"
        )


async def test_batches_are_committed_while_rows_are_written(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_writer, "PIECE_BYTES", 1)
    async with owner(embedded.settings) as first, owner(embedded.settings) as second:
        await first.open()
        await first.commit(_batch(0))
        await asyncio.gather(first.journal.flush(force=True), first.commit(_batch(1)))
        assert first.rows() == {"0/c/nodes/n": b'{"offset": 0}'}
        second.tables[:] = first.tables
        redone = await second.open()
        assert redone["0/c/nodes/n"] == b'{"offset": 1}', "the tail begins where the rows end"


async def test_urgent_rows_are_written_without_pauses(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_loop, "SLICE_S", 0.0)
    monkeypatch.setattr(event_loop, "BUSY_SHARE", 1e-9)
    monkeypatch.setattr(event_loop, "REST_MAX_S", 3_600.0)
    async with owner(embedded.settings) as only:
        await only.open()
        await only.commit(_batch(0))
        await only.journal.flush(force=True)
        assert only.rows() == {"0/c/nodes/n": b'{"offset": 0}'}


async def test_a_journaled_batch_is_published_by_the_next_owner(
    embedded: RunningBroker,
) -> None:
    """Rows follow the published outputs, so the next owner knows what remains to publish."""
    kafka = embedded.settings
    async with owner(kafka) as first, owner(kafka) as second:
        await first.open()
        zero = await first.journal.append([_batch(0)])
        one = await first.journal.append([_batch(1)])
        await first.journal.flush(force=True)
        assert first.rows() == {}
        await first.journal.commit([_batch(0)], zero)
        await first.journal.flush(force=True)
        assert first.rows() == {"0/c/nodes/n": b'{"offset": 0}'}
        second.tables[:] = first.tables
        assert (await second.open())["0/c/nodes/n"] == b'{"offset": 1}'
        decisions = [b'{"offset": 0}', b'{"offset": 1}']
        assert await _published(kafka, second.publisher, _PARTITION_OF_C) == decisions
        # The first owner does not know yet; it publishes the same decisions with the same bytes.
        await first.journal.commit([_batch(1)], one)
        assert await _published(kafka, second.publisher, _PARTITION_OF_C) == [
            *decisions,
            decisions[1],
        ]
        with pytest.raises(LostOwnership):
            await first.journal.append([_batch(2)])


async def test_a_batch_published_after_losing_the_partition_writes_no_rows(
    embedded: RunningBroker,
) -> None:
    kafka = embedded.settings
    async with owner(kafka) as old, owner(kafka) as new:
        await old.open()
        batch = _batch(0, partition=0)
        places = await old.journal.append([batch])
        await new.open()
        with pytest.raises(LostOwnership):
            await old.journal.append([_batch(1, partition=0)])
        await old.journal.commit([batch], places)
        await old.journal.flush(force=True)
        assert old.rows() == {}
        assert list(old.journal.list_unwritten(0)) == []


@pytest.mark.kafka
async def test_a_journal_whose_end_was_deleted_before_it_was_redone_is_an_error(
    clean_kafka: RunningBroker,
) -> None:
    """Only the opening record follows the deleted records, so no batch number is missing."""
    kafka = clean_kafka.settings
    async with owner(kafka) as before, owner(kafka) as after:
        await before.open()
        await before.commit(_batch(0, partition=0))
        admin = (await asyncio.to_thread(connect, kafka)).admin
        for answer in admin.delete_records([TopicPartition("journal", 0, 2)]).values():
            await asyncio.to_thread(answer.result)
        with pytest.raises(JournalDamaged, match="journal offsets 0 to 1 were deleted"):
            await after.open()


async def test_a_recreated_journal_is_an_error(
    embedded: RunningBroker,
) -> None:
    with EmbeddedBroker() as other:
        async with owner(embedded.settings) as before, owner(other.settings) as after:
            await before.open()
            await before.commit(_batch(0, partition=0))
            await before.journal.flush(force=True)
            places = before.tables[-1].read_rows([0])[0]
            with pytest.raises(
                JournalDamaged, match=r"ends at offset 1, but .* up to offset 1: the topic was"
            ):
                await after.journal.open(0, before.rows() | places, {})


async def test_a_replaced_worker_writes_no_rows_before_it_notices(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with owner(embedded.settings) as old, owner(embedded.settings) as new:
        await old.open()
        await old.commit(_batch(0))
        await new.open()
        # The owner pauses for longer than its ownership is certain, and then continues.
        monkeypatch.setattr(row_writer, "OWNED_S", 0.5)
        await asyncio.sleep(0.6)
        committing = asyncio.create_task(old.commit(_batch(1)))
        while not committing.done():
            await old.journal.flush(force=True)
            await asyncio.sleep(0)
        with pytest.raises(LostOwnership):
            await committing
        assert old.rows() == {}


@pytest.mark.kafka
async def test_the_broker_refuses_rows_of_a_suspended_worker(
    clean_kafka: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was stopped after its last look at the journal, and its rows are older than its
    successor's."""
    kafka = clean_kafka.settings
    async with owner(kafka) as old, owner(kafka) as new:
        await old.open()
        await old.commit(_batch(0))
        await new.open()
        await new.commit(_batch(1))
        await new.journal.flush(force=True)
        monkeypatch.setattr(row_writer, "OWNED_S", float("inf"))
        with pytest.raises(
            LostOwnership,
            match=r"another worker owns partition 0.*another LOADSTREAM_WORKER_STAGES",
        ):
            await old.journal.flush(force=True)
        changelog = old.tables[0].changelog
        end = await new.publisher.append(changelog, 0, [b"end"])
        rows = await read_range(kafka, changelog, 0, 0, end)
        written = [entry.value for entry in rows if entry.key == b"0/c/nodes/n"]
        assert written == [b'{"offset": 1}']
