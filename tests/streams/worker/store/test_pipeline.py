"""Applied batches become durable in order while the pipeline runs."""

import asyncio
import time
from collections.abc import Sequence
from functools import partial

import pytest

from streams.stage.journal import JournalPosition
from streams.stage.records import AppliedBatch, StageResult
from streams.worker.store.pipeline import AHEAD_MAX, PendingBatch, Pipeline, StageEnded
from tests.streams.worker.parts import NoBroker


class _Slow(NoBroker):
    """Makes nothing durable before it is allowed to."""

    def __init__(self) -> None:
        super().__init__()
        self.allowed = asyncio.Event()

    async def commit(
        self, batches: Sequence[AppliedBatch], places: Sequence[JournalPosition] = ()
    ) -> None:
        await self.allowed.wait()
        await super().commit(batches, places)


class _Giver:
    """Applies batches as soon as there is room, one at a time."""

    def __init__(self, pipeline: Pipeline) -> None:
        self.reported: list[int] = []
        self._pipeline = pipeline
        self._applying = asyncio.Lock()

    async def apply(self, number: int) -> None:
        """Apply a batch of this partition."""
        async with self._applying:
            await self._pipeline.wait_for_room()
            applied = AppliedBatch(number, (), StageResult())
            report = partial(self._report, number)
            self._pipeline.add(PendingBatch([applied], time.monotonic(), report))

    def _report(self, number: int, seconds: float) -> None:
        self.reported.append(number)


@pytest.mark.timeout(30)
async def test_a_batch_waits_for_room_before_it_is_applied() -> None:
    slow = _Slow()
    pipeline = Pipeline(slow)
    giver = _Giver(pipeline)
    working = asyncio.gather(pipeline.journal_all(), pipeline.commit_all())
    tasks = [asyncio.create_task(giver.apply(number)) for number in range(AHEAD_MAX + 6)]
    await asyncio.sleep(0.01)
    waiting = [task for task in tasks if not task.done()]
    assert waiting
    waiting[-1].cancel()  # as in a stopping worker: this batch was not applied
    slow.allowed.set()
    await asyncio.gather(*waiting, return_exceptions=True)
    await pipeline.make_durable()
    assert slow.journaled == slow.durable
    assert len(slow.durable) == AHEAD_MAX + 5
    working.cancel()


@pytest.mark.timeout(30)
async def test_a_closed_pipeline_accepts_no_batch() -> None:
    pipeline = Pipeline(_Slow())
    giver = _Giver(pipeline)
    pipeline.drop_pending()
    for number in range(AHEAD_MAX + 4):
        with pytest.raises(StageEnded, match="the stage has ended"):
            await giver.apply(number)
    assert pipeline.busy_since_s is None
    await pipeline.make_durable()


@pytest.mark.timeout(30)
async def test_one_batch_is_journaled_while_the_one_before_it_is_committed_and_no_more() -> None:
    slow = _Slow()
    pipeline = Pipeline(slow)
    giver = _Giver(pipeline)
    working = asyncio.gather(pipeline.journal_all(), pipeline.commit_all())
    tasks = [asyncio.create_task(giver.apply(number)) for number in range(4)]
    for _ in range(100):
        await asyncio.sleep(0)
    assert (slow.journaled, slow.durable, giver.reported) == ([0, 1], [], [])
    slow.allowed.set()
    await asyncio.gather(*tasks)
    await pipeline.make_durable()
    assert slow.journaled == slow.durable == giver.reported == [0, 1, 2, 3]
    working.cancel()
