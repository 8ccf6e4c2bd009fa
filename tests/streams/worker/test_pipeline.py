"""What is handed over becomes durable in its order, whatever becomes of who handed it over."""

import asyncio
import time
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import pytest

from streams.stage.packing import Changes
from streams.stage.records import RowChange, StageResult
from streams.worker.batches import Batch
from streams.worker.durability import Applied, Journaled, PartitionRows
from streams.worker.pipeline import AHEAD_MAX, Pipeline, StageEnded, UnderWay


class _Slow:
    """Makes nothing durable before it is allowed to."""

    topics: tuple[str, ...] = ()
    topic_ids: Mapping[str, str] = MappingProxyType({})

    def __init__(self) -> None:
        self.allowed = asyncio.Event()
        self.journaled: list[int] = []
        self.durable: list[int] = []

    async def open(self, partition: int, rows: PartitionRows) -> PartitionRows:
        return rows

    async def append(self, batches: Sequence[Applied]) -> Journaled:
        self.journaled += [batch.partition for batch in batches]
        return Journaled(batches)

    async def commit(self, journaled: Journaled) -> None:
        await self.allowed.wait()
        self.durable += [batch.partition for batch in journaled.batches]

    async def flush(self, *, force: bool = False) -> None:
        return None

    def unwritten(self, partition: int) -> Sequence[Changes]:
        return ()

    def close(self, partition: int) -> None:
        return None


def _batch(number: int) -> UnderWay:
    applied = Applied(number, (), StageResult())
    return UnderWay([applied], Batch(), time.monotonic())


@pytest.mark.timeout(30)
async def test_what_waits_to_be_handed_over_becomes_durable_when_its_giver_is_cancelled() -> None:
    # As where a worker is asked to stop while it makes up for lost time.
    slow = _Slow()
    pipeline = Pipeline(slow, lambda it, seconds: None)
    committing = asyncio.gather(pipeline.journal_all(), pipeline.commit_all())
    givers = [
        asyncio.create_task(pipeline.hand_over(_batch(number))) for number in range(AHEAD_MAX + 4)
    ]
    await asyncio.sleep(0.01)
    waiting = [giver for giver in givers if not giver.done()]
    assert waiting
    for giver in waiting:
        giver.cancel()
    await asyncio.gather(*waiting, return_exceptions=True)
    slow.allowed.set()
    await pipeline.settle()
    assert slow.durable == list(range(AHEAD_MAX + 4))
    committing.cancel()


@pytest.mark.timeout(30)
async def test_who_waits_when_the_pipeline_ends_gets_the_error() -> None:
    pipeline = Pipeline(_Slow(), lambda it, seconds: None)
    givers = [
        asyncio.create_task(pipeline.hand_over(_batch(number))) for number in range(AHEAD_MAX + 1)
    ]
    await asyncio.sleep(0.01)
    pipeline.give_up()
    *_, error = await asyncio.gather(*givers, return_exceptions=True)
    assert isinstance(error, StageEnded)
    await pipeline.settle()


@pytest.mark.timeout(30)
@pytest.mark.parametrize("turns", range(6))
async def test_what_comes_after_a_giver_that_is_cancelled_does_not_overtake_it(turns: int) -> None:
    slow, full = _Slow(), AHEAD_MAX + 3
    pipeline = Pipeline(slow, lambda it, seconds: None)
    committing = asyncio.gather(pipeline.journal_all(), pipeline.commit_all())
    givers = [asyncio.create_task(pipeline.hand_over(_batch(number))) for number in range(full)]
    await asyncio.sleep(0.01)
    givers[-1].cancel()
    await asyncio.gather(givers[-1], return_exceptions=True)

    async def give_next() -> None:
        for _ in range(turns):  # in one of them there is room
            await asyncio.sleep(0)
        await pipeline.hand_over(_batch(full))

    giving = asyncio.create_task(give_next())
    slow.allowed.set()
    await giving
    await pipeline.settle()
    assert slow.journaled == slow.durable == list(range(full + 1))
    committing.cancel()


@pytest.mark.timeout(30)
async def test_who_comes_after_a_giver_that_was_cancelled_gets_the_error_too() -> None:
    pipeline = Pipeline(_Slow(), lambda it, seconds: None)
    givers = [
        asyncio.create_task(pipeline.hand_over(_batch(number))) for number in range(AHEAD_MAX + 2)
    ]
    await asyncio.sleep(0.01)
    givers[-2].cancel()
    await asyncio.gather(givers[-2], return_exceptions=True)
    pipeline.give_up()
    with pytest.raises(StageEnded):
        await asyncio.wait_for(givers[-1], 5)


@pytest.mark.timeout(30)
async def test_after_the_end_nothing_is_taken_and_nobody_waits() -> None:
    pipeline = Pipeline(_Slow(), lambda it, seconds: None)
    pipeline.give_up()
    for number in range(AHEAD_MAX + 4):
        with pytest.raises(StageEnded, match="the stage has ended"):
            await pipeline.hand_over(_batch(number))
    assert pipeline.busy_since_s is None
    await pipeline.settle()


@pytest.mark.timeout(30)
async def test_rows_under_way_are_those_of_batches_that_are_not_durable() -> None:
    slow = _Slow()
    pipeline = Pipeline(slow, lambda it, seconds: None)
    committing = asyncio.gather(pipeline.journal_all(), pipeline.commit_all())
    rows = [RowChange("0/c/nodes/n", value) for value in (b"1", b"2")]
    for row in rows:
        result = StageResult(rows=(row,))
        it = UnderWay([Applied(0, (), result), Applied(1, (), result)], Batch(), time.monotonic())
        await pipeline.hand_over(it)
    assert list(pipeline.rows_under_way(0)) == rows
    slow.allowed.set()
    await pipeline.settle()
    assert list(pipeline.rows_under_way(0)) == []
    committing.cancel()


@pytest.mark.timeout(30)
async def test_one_batch_is_journaled_while_the_one_before_it_is_committed_and_no_more() -> None:
    slow = _Slow()
    told: list[int] = []
    pipeline = Pipeline(slow, lambda it, seconds: told.append(it.applied[0].partition))
    committing = asyncio.gather(pipeline.journal_all(), pipeline.commit_all())
    givers = [asyncio.create_task(pipeline.hand_over(_batch(number))) for number in range(4)]
    for _ in range(100):
        await asyncio.sleep(0)
    assert (slow.journaled, slow.durable, told) == ([0, 1], [], [])
    slow.allowed.set()
    await asyncio.gather(*givers)
    await pipeline.settle()
    assert slow.journaled == slow.durable == told == [0, 1, 2, 3]
    committing.cancel()
