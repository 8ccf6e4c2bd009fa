"""Checkpoints on a broker: when they are due, their content, and how they stop."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

from connectors.kafka.partition_records import read_range
from schemas.settings.connection import KafkaSettings
from schemas.storage.rows import PartitionRow
from schemas.storage.tables import PARTITION, kind_of_key, row_key
from schemas.topics.codec import encode
from streams.stage.checkpoint import (
    PIECE_BYTES,
    TOPIC,
    Checkpoint,
    CheckpointDecoder,
    CheckpointFinder,
    FoundCheckpoint,
    read_piece,
)
from streams.stage.records import AppliedBatch, InputRecord, RowChange, StageResult
from streams.worker.consume.transport import WorkerApp, broker_urls
from streams.worker.store import checkpointer as module
from streams.worker.store.checkpointer import Checkpointer
from streams.worker.store.fence import FencedPublisher
from streams.worker.store.journal_first import JournalFirst
from streams.worker.store.publisher import LostOwnership, Publisher
from streams.worker.store.row_writer import RowWriter
from streams.worker.tables import RowTable
from tests.conftest import RunningBroker

_NOW_MS = 1_790_000_000_000
_PARTITIONS = 4


class Owner:
    """The part of a worker with a journal, rows and checkpoints."""

    def __init__(self, kafka: KafkaSettings, piece_bytes: int) -> None:
        app: Any = WorkerApp("test", broker=broker_urls(kafka), store="memory://")
        self.kafka = kafka
        self.tables = [RowTable(app, name, _PARTITIONS) for name in ("nodes", "cluster")]
        self.publisher = FencedPublisher(kafka)
        self.results: list[str] = []
        self.reported = asyncio.Event()
        self.separate = Publisher(kafka)
        self.checkpointer = Checkpointer(self.separate, 60.0, self._tell, piece_bytes)
        rows = RowWriter(self.tables, self.publisher, self.checkpointer)
        self.journal = JournalFirst(kafka, self.publisher, rows)

    def _tell(self, result: str) -> None:
        self.results.append(result)
        self.reported.set()

    def held(self) -> asyncio.Event:
        """Checkpoints stand still behind their first piece until this is set."""
        go_on, append = asyncio.Event(), self.separate.append

        async def append_and_wait(topic: str, partition: int, values: list[bytes]) -> int:
            offset = await append(topic, partition, values)
            await go_on.wait()
            return offset

        vars(self.separate)["append"] = append_and_wait
        return go_on

    async def open(self, partition: int = 0, after: "Owner | None" = None) -> None:
        """Take a partition over with the rows of its former owner."""
        if after is not None:
            for table, old_table in zip(self.tables, after.tables, strict=True):
                rows_left = old_table.read_rows([partition])[partition].items()
                table.store(RowChange(key, value) for key, value in rows_left)
        nodes, cluster = (table.read_rows([partition])[partition] for table in self.tables)
        await self.journal.open(partition, nodes | cluster, {})

    async def apply(self, second: int, partition: int = 0, nodes: int = 1) -> None:
        """Apply a batch at this second that changes nodes, and write its rows."""
        clock = encode(PartitionRow(partition=partition, now_ms=_NOW_MS + second * 1000))
        rows = [RowChange(f"{partition}/c/nodes/n{n}", b'{"at":%d}' % second) for n in range(nodes)]
        rows.append(RowChange(row_key(partition, "", PARTITION), clock))
        record = InputRecord("node-state", partition, second, b"c", b"{}", 0)
        result = StageResult((), tuple(rows))
        batches = [AppliedBatch(partition, [record], result)]
        await self.journal.commit(batches, await self.journal.append(batches))
        await self.journal.flush(force=True)

    async def until(self, count: int) -> None:
        """Wait for this many results."""
        while len(self.results) < count:
            self.reported.clear()
            await asyncio.wait_for(self.reported.wait(), 60)

    async def stored(self, partition: int = 0) -> list[bytes | None]:
        """Values of topic `checkpoints`."""
        end = await self.publisher.append(TOPIC, partition, [b"end"])
        entries = await read_range(self.kafka, TOPIC, partition, 0, end)
        return [entry.value for entry in entries if entry.value != b"end"]


@asynccontextmanager
async def owner(kafka: KafkaSettings, piece_bytes: int = PIECE_BYTES) -> AsyncIterator[Owner]:
    """An owner that writes checkpoints."""
    it = Owner(kafka, piece_bytes)
    running = asyncio.create_task(it.checkpointer.run())
    try:
        yield it
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await it.publisher.stop()


def _find_checkpoints(values: list[bytes | None], partition: int = 0) -> list[FoundCheckpoint]:
    finder = CheckpointFinder(partition)
    for offset, value in enumerate(values):
        finder.feed(offset, value)
    return finder.found


def _whole(values: list[bytes | None], end: FoundCheckpoint, partition: int = 0) -> Checkpoint:
    decoder = CheckpointDecoder(end.position)
    for value in values:
        piece = read_piece(partition, value)
        whole = None if piece is None else decoder.feed(*piece)
        if whole is not None:
            return whole
    raise AssertionError("it was found")


async def test_one_is_written_when_the_clock_of_the_log_enters_the_next_interval(
    embedded: RunningBroker,
) -> None:
    async with owner(embedded.settings) as it:
        await it.open()
        for second in (0, 5, 39, 41, 45, 101):  # minutes begin at 40 and 100
            await it.apply(second)
            await it.until(sum(second > begin for begin in (40, 100)))
        assert it.results == ["written", "written"]
        values = await it.stored()
        first, second_ = _find_checkpoints(values)
        assert first.now_ms == _NOW_MS + 41_000
        assert second_.now_ms == _NOW_MS + 101_000
        assert (first.position.epoch, first.position.sequence, first.position.offset) == (0, 3, 4)
        rows = dict(_whole(values, first).rows)
        assert rows["0/c/nodes/n0"] == b'{"at":41}'
        assert set(rows) == {"0/c/nodes/n0", "0//partitions/"}


async def test_checkpoints_resume_after_the_clock_was_ahead(
    embedded: RunningBroker,
) -> None:
    async with owner(embedded.settings) as it:
        await it.open()
        year_s = 365 * 86_400
        await it.apply(0)
        await it.apply(year_s)  # somebody's clock is ahead
        await it.until(1)
        await it.apply(5)  # and the partition's time is set right
        assert len(it.results) == 1
        await it.apply(41)
        await it.until(2)
        assert _find_checkpoints(await it.stored())[-1].now_ms == _NOW_MS + 41_000


async def test_batches_go_on_while_one_is_written_and_change_nothing_in_it(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "ROWS_PER_ITERATION", 3)
    async with owner(embedded.settings, piece_bytes=60) as it:
        await it.open()
        await it.open(1)
        await it.apply(0)
        await it.apply(0, partition=1)
        go_on = it.held()
        for second in (41, 42, 43):
            await it.apply(second, nodes=40)
        assert it.results == [], "batches were durable before it was"
        go_on.set()
        await it.until(1)
        values = await it.stored()
        (checkpoint,) = _find_checkpoints(values)
        whole = _whole(values, checkpoint)
        nodes = {key: value for key, value in whole.rows if kind_of_key(key) == "nodes"}
        assert nodes == {f"0/c/nodes/n{n}": b'{"at":41}' for n in range(40)}, "rows of one place"


async def test_a_revoked_partition_leaves_an_incomplete_checkpoint(
    embedded: RunningBroker,
) -> None:
    async with (
        owner(embedded.settings, piece_bytes=60) as old,
        owner(embedded.settings) as new,
    ):
        await old.open()
        await old.apply(0)
        go_on = old.held()
        await old.apply(41, nodes=200)
        while not (begun := await old.stored()):
            await asyncio.sleep(0)
        await new.open()
        with pytest.raises(LostOwnership):
            await old.apply(42)
        go_on.set()
        await old.until(1)
        assert old.results == ["stopped"]
        assert begun
        assert _find_checkpoints(await old.stored()) == []

        await new.apply(101)
        await new.apply(161)
        await new.until(1)
        (checkpoint,) = _find_checkpoints(await new.stored())
        assert checkpoint.position.epoch > 0, "its successor's is one"


async def test_a_restart_within_an_interval_writes_no_other_checkpoint(
    embedded: RunningBroker,
) -> None:
    async with owner(embedded.settings) as first:
        await first.open()
        await first.apply(0)
        await first.apply(41)
        await first.until(1)
    async with owner(embedded.settings) as it:
        await it.open(after=first)
        await it.apply(42)
        await it.apply(99)
        assert it.results == []
        await it.apply(100)
        await it.until(1)
        assert len(_find_checkpoints(await it.stored())) == 2


async def test_a_checkpoint_that_cannot_be_written_is_logged(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with owner(embedded.settings) as it:
        await it.open()
        await it.apply(0)
        monkeypatch.setattr(module, "RETRY_S", 0.0)
        it.tables[0].store([RowChange("0/c/nodes/n1", b"\0{}")])
        await it.apply(41)
        await it.until(1)
        assert it.results == ["failed"]
        it.tables[0].store([RowChange("0/c/nodes/n1", None)])
        while "written" not in it.results:
            await it.apply(42)
        assert len(_find_checkpoints(await it.stored())) == 1
