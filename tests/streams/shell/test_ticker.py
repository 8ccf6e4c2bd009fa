"""A partition's clock and what must be known before it goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiokafka import AIOKafkaProducer

from schemas.clock import ClockTick
from schemas.codec import decode_as
from schemas.connection import KafkaSettings
from streams.cluster.stage import ClusterStage
from streams.records import Stage
from streams.shell import ticker as under_test
from streams.shell.publisher import Publisher
from streams.shell.reader import read_range
from streams.shell.ticker import CLOCK_TOPIC, KNOWN_FIRST, Mark, Ticker
from tests.conftest import RunningBroker

_CONFIRMING = "pod-lifecycle"
_PARTITION = 0


@dataclass
class _Runner:
    """A runner of one partition that applies what it is told to, and nothing by itself."""

    stages: dict[int, Stage] = field(default_factory=lambda: {_PARTITION: ClusterStage(0, 4)})
    recovered: bool = True
    generation: int = 0
    in_time: bool = True
    asked: list[tuple[str, int]] = field(default_factory=list)
    """Topic and end of what was to be read in front of all else."""

    @property
    def positions(self) -> dict[str, int]:
        """Offset applied last, by topic."""
        stage = self.stages[_PARTITION]
        assert isinstance(stage, ClusterStage)
        return stage.positions

    async def apply_up_to(self, topic: str, partition: int, end: int, until_s: float) -> bool:
        """Apply it."""
        assert partition == _PARTITION
        self.asked.append((topic, end))
        if self.in_time:
            self.positions[topic] = end - 1
        return self.in_time


@asynccontextmanager
async def _ticking(kafka: KafkaSettings, hold_max_s: float = 60.0) -> AsyncIterator[Ticker]:
    publisher = Publisher(kafka)
    await publisher.start()
    ticker = Ticker(kafka, publisher, 1.0, hold_max_s)
    # The embedded broker makes a topic when it is asked for first, which can take its time.
    places = {(topic, _PARTITION) for topic in (CLOCK_TOPIC, *KNOWN_FIRST)}
    while await ticker.brokers.spans(places) is None:
        await asyncio.sleep(0.1)
    try:
        yield ticker
    finally:
        await ticker.leave()
        await publisher.stop()


async def _happen(kafka: KafkaSettings, count: int) -> None:
    async with AIOKafkaProducer(**kafka.aiokafka_options()) as producer:
        for _ in range(count):
            await producer.send_and_wait(_CONFIRMING, b"{}", partition=_PARTITION)


async def _told_ms(kafka: KafkaSettings, ticker: Ticker) -> list[int]:
    """All ticks so far."""
    spans = await ticker.brokers.spans({(CLOCK_TOPIC, _PARTITION)})
    assert spans is not None
    _, end = spans[CLOCK_TOPIC, _PARTITION]
    ticks = [
        decode_as(ClockTick, entry.value)
        for entry in await read_range(kafka, CLOCK_TOPIC, _PARTITION, 0, end)
    ]
    assert all(isinstance(tick, ClockTick) for tick in ticks)
    return [tick.now_ms for tick in ticks if isinstance(tick, ClockTick)]


async def test_the_time_is_told_at_once_where_nothing_waits(embedded: RunningBroker) -> None:
    runner = _Runner()
    async with _ticking(embedded.settings) as ticker:
        await ticker.tick(runner)
        await ticker.tick(runner)
        told_ms = await _told_ms(embedded.settings, ticker)
    assert len(told_ms) == 2
    assert told_ms == sorted(told_ms)
    assert runner.asked == []


async def test_the_time_is_told_when_what_was_there_is_applied_and_not_before(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "PATIENCE_S", 3600.0)
    runner = _Runner()
    await _happen(embedded.settings, 3)
    async with _ticking(embedded.settings) as ticker:
        ticking = asyncio.create_task(ticker.tick(runner))
        for position in (0, 1):
            runner.positions[_CONFIRMING] = position
            done, _ = await asyncio.wait([ticking], timeout=0.2)
            assert not done
            assert await _told_ms(embedded.settings, ticker) == []
        # More that comes after the mark holds nothing up.
        await _happen(embedded.settings, 5)
        runner.positions[_CONFIRMING] = 2
        await asyncio.wait_for(ticking, 60)
        assert len(await _told_ms(embedded.settings, ticker)) == 1


async def test_what_is_not_applied_soon_is_read_in_front_of_all_else(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "PATIENCE_S", 0.0)
    runner = _Runner()
    await _happen(embedded.settings, 3)
    async with _ticking(embedded.settings) as ticker:
        await ticker.tick(runner)
        assert runner.asked == [(_CONFIRMING, 3)]
        assert len(await _told_ms(embedded.settings, ticker)) == 1
        # Offsets without a record at the end are asked for once, not with every tick.
        runner.positions[_CONFIRMING] = 1
        await ticker.tick(runner)
        assert len(runner.asked) == 1


async def test_a_flood_does_not_stop_the_time(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "PATIENCE_S", 0.0)
    runner = _Runner(in_time=False)
    await _happen(embedded.settings, 3)
    async with _ticking(embedded.settings, hold_max_s=0.0) as ticker:
        await ticker.tick(runner)
        assert runner.positions == {}
        assert len(await _told_ms(embedded.settings, ticker)) == 1


async def test_nothing_is_told_in_a_partition_that_was_taken_away_meanwhile(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "PATIENCE_S", 3600.0)
    runner = _Runner()
    await _happen(embedded.settings, 1)
    async with _ticking(embedded.settings) as ticker:
        ticking = asyncio.create_task(ticker.tick(runner))
        await asyncio.wait([ticking], timeout=0.2)
        runner.generation += 1
        runner.positions[_CONFIRMING] = 0
        await asyncio.wait_for(ticking, 60)
        assert await _told_ms(embedded.settings, ticker) == []


async def test_lost_time_is_made_up_for_by_what_happened_then_by_a_tick(
    embedded: RunningBroker,
) -> None:
    runner = _Runner()
    ahead_ms = 4_000_000_000_000
    stage = runner.stages[_PARTITION]
    assert isinstance(stage, ClusterStage)
    stage.now_ms = ahead_ms
    await _happen(embedded.settings, 2)
    async with _ticking(embedded.settings) as ticker:
        await ticker.make_up(runner)
        assert runner.asked == [(_CONFIRMING, 2), (CLOCK_TOPIC, 1)]
        assert await _told_ms(embedded.settings, ticker) == [ahead_ms], "time does not go back"
        assert not ticker.late(runner.stages)


async def test_a_clock_that_stood_for_long_is_late(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    runner = _Runner()
    async with _ticking(embedded.settings) as ticker:
        await ticker.tick(runner)
        assert not ticker.late(runner.stages)
        monkeypatch.setattr(under_test, "LATE_S", -3600.0)
        assert ticker.late(runner.stages)


def test_a_mark_names_what_is_not_known_up_to_it() -> None:
    mark = Mark(0, 0.0, {"pod-lifecycle": 3, "command-outcomes": 1})
    assert mark.left({}) == ["pod-lifecycle", "command-outcomes"]
    assert mark.left({"pod-lifecycle": 3}) == ["command-outcomes"]
    assert mark.left({"pod-lifecycle": 3, "command-outcomes": 7}) == []
