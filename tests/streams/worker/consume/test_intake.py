"""Records in the order of their offsets: repeated ones are dropped, gaps are read from the broker."""

import asyncio
import random
import time
from collections.abc import Iterable, Sequence
from itertools import pairwise

import pytest
from aiokafka import AIOKafkaProducer

from connectors.kafka import partition_records
from schemas.settings.connection import KafkaSettings
from streams.cluster.stage import ClusterStage
from streams.stage.records import InputRecord, StageResult
from streams.worker.consume import intake as under_test
from streams.worker.consume.batches import Batch
from streams.worker.consume.intake import Intake
from streams.worker.report.metrics import Metrics
from streams.worker.store.pipeline import Pipeline
from tests.conftest import RunningBroker
from tests.streams.worker.parts import NoBroker, own_partition

_TOPIC = "node-state"
_RECORDS = 300


def _record(offset: int) -> InputRecord:
    return InputRecord(_TOPIC, 0, offset, None, b"%d" % offset, 0)


class _Stage(ClusterStage):
    """Records the inputs that it applies."""

    def __init__(self) -> None:
        super().__init__(0, 4)
        self.offsets: list[int] = []
        self.longest = 0

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        assert [record.value for record in records] == [b"%d" % record.offset for record in records]
        self.longest = max(self.longest, len(records))
        self.offsets += [record.offset for record in records]
        self.positions[_TOPIC] = self.offsets[-1]
        return StageResult()


class Applied:
    """An intake and the records applied through it."""

    def __init__(self, kafka: KafkaSettings, stage: _Stage | None = None) -> None:
        self.partitions = own_partition(_TOPIC)
        self._stage = self.partitions.stages[0] = stage or _Stage()
        self._metrics = Metrics()
        self._pipeline = Pipeline(NoBroker())
        self._intake = Intake(self.partitions, self._pipeline, kafka, self._metrics)

    async def give(self, offsets: Iterable[int], empty: Iterable[tuple[int, int]] = ()) -> None:
        """Records with these offsets come, in this order; no record is at offsets in `empty`."""
        batch = Batch([_record(offset) for offset in offsets])
        batch.empty |= {(_TOPIC, 0, first): following for first, following in empty}
        await self.apply(batch)

    async def apply(self, batch: Batch) -> None:
        """The batch comes."""
        working = asyncio.gather(self._pipeline.journal_all(), self._pipeline.commit_all())
        await self._intake.apply_batch(batch)
        await self._intake.make_durable()
        working.cancel()

    @property
    def offsets(self) -> list[int]:
        """All that were applied."""
        return self._stage.offsets

    @property
    def longest(self) -> int:
        """Most records that were applied at once."""
        return self._stage.longest

    @property
    def healed(self) -> float:
        """How many records were read since they had not come."""
        labels = {"stage": "cluster", "topic": _TOPIC}
        value = self._metrics.registry.get_sample_value
        return value("loadstream_healed_records_total", labels) or 0


async def _write(kafka: KafkaSettings) -> None:
    async with AIOKafkaProducer(linger_ms=5, **kafka.aiokafka_options()) as producer:
        sent = [await producer.send(_TOPIC, b"%d" % at, partition=0) for at in range(_RECORDS)]
        await asyncio.gather(*sent)


async def test_records_that_were_applied_before_are_dropped(embedded: RunningBroker) -> None:
    applied = Applied(embedded.settings)
    await applied.give(range(5))
    await applied.give([3, 4, 5, 4, 6])
    assert (applied.offsets, applied.healed) == (list(range(7)), 0)


async def test_skipped_records_are_applied_first_in_pieces(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partition_records, "PIECE_RECORDS_MAX", 50)
    await _write(embedded.settings)
    applied = Applied(embedded.settings)
    await applied.give([0, 1, 200, 201])
    assert (applied.offsets, applied.healed, applied.longest) == (list(range(202)), 198, 50)


async def test_every_record_is_applied_once_despite_gaps_and_repetitions(
    embedded: RunningBroker,
) -> None:
    await _write(embedded.settings)
    for seed in range(5):
        drawn = random.Random(seed)
        applied = Applied(embedded.settings)
        last = 0
        for _ in range(6):
            first = max(0, last + drawn.randint(-20, 20))
            given_offsets = sorted(drawn.sample(range(first, first + 40), 15))
            last = max(last, given_offsets[-1])
            await applied.give(given_offsets)
        assert applied.offsets == list(range(last + 1))


async def test_offsets_without_a_record_are_not_read_again(
    embedded: RunningBroker,
) -> None:
    await _write(embedded.settings)
    applied = Applied(embedded.settings)
    await applied.give([0, 1, 4, 7], [(2, 4), (5, 6), (6, 7), (8, 9)])
    await applied.give([], [(9, 20)])
    await applied.give([20], [(21, 22)])
    assert (applied.offsets, applied.healed) == ([0, 1, 4, 7, 20], 0)
    await applied.give([23])
    assert (applied.offsets, applied.healed) == ([0, 1, 4, 7, 20, 22, 23], 1)


class _SlowStage(_Stage):
    """Works for a while on each record."""

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        until_s = time.thread_time() + 0.02 * len(records)
        while time.thread_time() < until_s:
            pass
        return super().apply(records)


async def test_records_that_take_long_are_applied_in_pieces_between_which_the_loop_turns(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "PIECE_S", 0.05)
    applied = Applied(embedded.settings, _SlowStage())
    turns: list[int] = []

    async def turn() -> None:
        while True:
            turns.append(len(applied.offsets))
            await asyncio.sleep(0)

    turning = asyncio.create_task(turn())
    await applied.give(range(200))
    turning.cancel()
    assert applied.offsets == list(range(200))
    pieces = [later - sooner for sooner, later in pairwise(dict.fromkeys(turns))]
    assert max(pieces[1:]) <= 10, (
        "a piece of 20 ms a record is a few records long, but for the first"
    )


async def test_partitions_revoked_between_pieces_drop_the_rest(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "PIECE_S", 0.05)
    applied = Applied(embedded.settings, _SlowStage())
    acknowledged: list[bool] = []

    class _Event:
        def ack(self) -> None:
            acknowledged.append(True)

    batch = Batch([_record(offset) for offset in range(300)], [_Event()])
    giving = asyncio.create_task(applied.apply(batch))
    while not applied.offsets:
        await asyncio.sleep(0)
    applied.partitions.generation += 1
    await asyncio.wait_for(giving, 60)
    assert 0 < len(applied.offsets) < 300
    assert acknowledged == []
