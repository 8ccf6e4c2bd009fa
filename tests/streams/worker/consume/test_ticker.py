"""A partition's clock and what must be known before it goes on."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaProducer

from connectors.kafka.partition_records import read_range
from connectors.process.wall_clock import now_ms
from schemas.messages.clock import AHEAD_MAX_MS, ClockTick
from schemas.settings.connection import KafkaSettings
from schemas.topics.codec import decode_as, encode
from streams.cluster.stage import ClusterStage
from streams.stage.records import InputRecord
from streams.worker.consume import ticker as under_test
from streams.worker.consume.intake import CLOCK_TOPIC, refuse_ticks_ahead
from streams.worker.consume.ticker import APPLIED_FIRST, Ticker, TickSettings
from tests.conftest import RunningBroker
from tests.streams.worker.parts import AskedIntake

_CONFIRMING = "pod-lifecycle"
_PARTITION = 0


@asynccontextmanager
async def _ticking(
    kafka: KafkaSettings, intake: AskedIntake, hold_max_s: float = 60.0
) -> AsyncIterator[Ticker]:
    ticker = Ticker(kafka, intake, TickSettings(1.0, hold_max_s))
    await ticker.start()
    # The embedded broker makes a topic when it is asked for first, which can take its time.
    places = {(topic, _PARTITION) for topic in (CLOCK_TOPIC, *APPLIED_FIRST)}
    while await ticker.brokers.spans(places) is None:
        await asyncio.sleep(0.1)
    try:
        yield ticker
    finally:
        await ticker.stop()


async def _happen(kafka: KafkaSettings, count: int) -> None:
    async with AIOKafkaProducer(**kafka.aiokafka_options()) as producer:
        for _ in range(count):
            await producer.send_and_wait(_CONFIRMING, b"{}", partition=_PARTITION)


async def _written_ms(kafka: KafkaSettings, ticker: Ticker) -> list[int]:
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
    intake = AskedIntake()
    async with _ticking(embedded.settings, intake) as ticker:
        await ticker.tick()
        await ticker.tick()
        written_ms = await _written_ms(embedded.settings, ticker)
    assert len(written_ms) == 2
    assert written_ms == sorted(written_ms)
    assert intake.asked == []


async def test_the_time_is_told_when_what_was_there_is_applied_and_not_before(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "DELIVERY_WAIT_S", 3600.0)
    intake = AskedIntake()
    await _happen(embedded.settings, 3)
    async with _ticking(embedded.settings, intake) as ticker:
        ticking = asyncio.create_task(ticker.tick())
        for position in (0, 1):
            intake.positions[_CONFIRMING] = position
            done, _ = await asyncio.wait([ticking], timeout=0.2)
            assert not done
            assert await _written_ms(embedded.settings, ticker) == []
        # More that comes after the mark holds nothing up.
        await _happen(embedded.settings, 5)
        intake.positions[_CONFIRMING] = 2
        await asyncio.wait_for(ticking, 60)
        assert len(await _written_ms(embedded.settings, ticker)) == 1


async def test_what_is_not_applied_soon_is_read_in_front_of_all_else(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "DELIVERY_WAIT_S", 0.0)
    intake = AskedIntake(holds_records=False)
    await _happen(embedded.settings, 3)
    async with _ticking(embedded.settings, intake) as ticker:
        await ticker.tick()
        assert intake.asked == [(_CONFIRMING, 3)]
        assert len(await _written_ms(embedded.settings, ticker)) == 1
        # Offsets without a record at the end are asked for once, not with every tick.
        await ticker.tick()
        assert len(intake.asked) == 1


async def test_a_flood_does_not_stop_the_time(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "DELIVERY_WAIT_S", 0.0)
    intake = AskedIntake(in_time=False)
    await _happen(embedded.settings, 3)
    async with _ticking(embedded.settings, intake, hold_max_s=0.0) as ticker:
        await ticker.tick()
        assert intake.positions == {}
        assert len(await _written_ms(embedded.settings, ticker)) == 1


async def test_nothing_is_told_in_a_partition_that_was_taken_away_meanwhile(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "DELIVERY_WAIT_S", 3600.0)
    intake = AskedIntake()
    await _happen(embedded.settings, 1)
    async with _ticking(embedded.settings, intake) as ticker:
        ticking = asyncio.create_task(ticker.tick())
        await asyncio.wait([ticking], timeout=0.2)
        intake.partitions.generation += 1
        intake.positions[_CONFIRMING] = 0
        await asyncio.wait_for(ticking, 60)
        assert await _written_ms(embedded.settings, ticker) == []


async def test_lost_time_is_made_up_for_by_what_happened_then_by_a_tick(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "AHEAD_MAX_MS", 3_600_000)
    monkeypatch.setattr(under_test, "LATE_S", 3600.0)
    intake = AskedIntake()
    ahead_ms = now_ms() + 1_800_000
    stage = intake.partitions.stages[_PARTITION]
    assert isinstance(stage, ClusterStage)
    stage.now_ms = ahead_ms
    await _happen(embedded.settings, 2)
    async with _ticking(embedded.settings, intake) as ticker:
        await ticker.catch_up()
        assert intake.asked == [(_CONFIRMING, 2), (CLOCK_TOPIC, 1)]
        assert await _written_ms(embedded.settings, ticker) == [ahead_ms], "time does not go back"
        assert not ticker.is_late


@pytest.mark.parametrize("by_tick", [True, False], ids=["by a tick", "when time was lost"])
async def test_what_has_happened_is_asked_for_in_the_generation_that_began_with(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch, *, by_tick: bool
) -> None:
    """Otherwise what another worker owns by now is applied here as well."""
    monkeypatch.setattr(under_test, "DELIVERY_WAIT_S", 0.0)
    intake = AskedIntake(taken_after=APPLIED_FIRST[0])
    async with AIOKafkaProducer(**embedded.settings.aiokafka_options()) as producer:
        for topic in APPLIED_FIRST:
            await producer.send_and_wait(topic, b"{}", partition=_PARTITION)
    async with _ticking(embedded.settings, intake) as ticker:
        await (ticker.tick() if by_tick else ticker.catch_up())
        assert intake.asked == [(topic, 1) for topic in APPLIED_FIRST]
        assert intake.asked_in == [0] * len(APPLIED_FIRST)
        assert await _written_ms(embedded.settings, ticker) == []


async def test_a_clock_that_stood_for_long_is_late(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "LATE_S", 3600.0)
    intake = AskedIntake()
    async with _ticking(embedded.settings, intake) as ticker:
        await ticker.tick()
        assert not ticker.is_late
        monkeypatch.setattr(under_test, "LATE_S", -3600.0)
        assert ticker.is_late


def _record(now_ms: int, offset: int = 0) -> InputRecord:
    value = encode(ClockTick(partition=_PARTITION, now_ms=now_ms))
    return InputRecord(CLOCK_TOPIC, _PARTITION, offset, b"0", value, now_ms)


@pytest.mark.parametrize(
    ("ahead_ms", "refused"),
    [
        (0, False),
        (AHEAD_MAX_MS // 2, False),
        (AHEAD_MAX_MS + 60_000, True),
        (-365 * 86_400_000, False),
    ],
)
def test_a_tick_too_far_ahead_of_the_workers_own_time_is_marked_as_refused(
    ahead_ms: int, refused: bool
) -> None:
    own_ms = now_ms()
    other = InputRecord(_CONFIRMING, _PARTITION, 0, b"c", b"{}", 0)
    first, second = refuse_ticks_ahead([other, _record(own_ms + ahead_ms)], own_ms)
    assert first is other
    assert second.refused_at_ms == (own_ms if refused else None)


async def test_a_clock_that_is_ahead_is_reported(embedded: RunningBroker) -> None:
    intake = AskedIntake()
    stage = intake.partitions.stages[_PARTITION]
    stage.apply([_record(now_ms() + 365 * 86_400_000)])
    async with _ticking(embedded.settings, intake) as ticker:
        await ticker.catch_up()
        await ticker.tick()
        (sentence,) = intake.partitions.problems.sentences
        assert "clock of partition 0 is 31535" in sentence or "31536000 s ahead" in sentence
        assert "loadstream partition reset 0" in sentence
        # The worker's own time is written meanwhile, and not that of next year again and again.
        written_ms = await _written_ms(embedded.settings, ticker)
        assert len(written_ms) == 2
        assert max(written_ms) <= now_ms()
