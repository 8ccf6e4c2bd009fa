"""The clock of a partition waits for inputs that must be applied first."""

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
from tests.streams.worker.parts import RecordingIntake

_CONFIRMING = "pod-lifecycle"
_PARTITION = 0


@asynccontextmanager
async def _ticking(
    kafka: KafkaSettings, intake: RecordingIntake, hold_max_s: float = 60.0
) -> AsyncIterator[Ticker]:
    ticker = Ticker(kafka, intake, TickSettings(1.0, hold_max_s))
    await ticker.start()
    # The embedded broker creates a topic at the first request for it, which can take long.
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


async def test_a_tick_is_sent_at_once_when_no_input_waits(embedded: RunningBroker) -> None:
    intake = RecordingIntake()
    async with _ticking(embedded.settings, intake) as ticker:
        await ticker.tick()
        await ticker.tick()
        written_ms = await _written_ms(embedded.settings, ticker)
    assert len(written_ms) == 2
    assert written_ms == sorted(written_ms)
    assert intake.requested == []


async def test_a_tick_is_sent_after_waiting_inputs_are_applied(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "DELIVERY_WAIT_S", 3600.0)
    intake = RecordingIntake()
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


async def test_overdue_inputs_are_read_before_all_others(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "DELIVERY_WAIT_S", 0.0)
    intake = RecordingIntake(holds_records=False)
    await _happen(embedded.settings, 3)
    async with _ticking(embedded.settings, intake) as ticker:
        await ticker.tick()
        assert intake.requested == [(_CONFIRMING, 3)]
        assert len(await _written_ms(embedded.settings, ticker)) == 1
        # Offsets without a record at the end are requested once, not at every tick.
        await ticker.tick()
        assert len(intake.requested) == 1


async def test_a_flood_of_inputs_does_not_stop_the_clock(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "DELIVERY_WAIT_S", 0.0)
    intake = RecordingIntake(in_time=False)
    await _happen(embedded.settings, 3)
    async with _ticking(embedded.settings, intake, hold_max_s=0.0) as ticker:
        await ticker.tick()
        assert intake.positions == {}
        assert len(await _written_ms(embedded.settings, ticker)) == 1


async def test_no_tick_is_sent_in_a_revoked_partition(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "DELIVERY_WAIT_S", 3600.0)
    intake = RecordingIntake()
    await _happen(embedded.settings, 1)
    async with _ticking(embedded.settings, intake) as ticker:
        ticking = asyncio.create_task(ticker.tick())
        await asyncio.wait([ticking], timeout=0.2)
        intake.partitions.generation += 1
        intake.positions[_CONFIRMING] = 0
        await asyncio.wait_for(ticking, 60)
        assert await _written_ms(embedded.settings, ticker) == []


async def test_after_an_outage_inputs_are_applied_before_the_next_tick(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "AHEAD_MAX_MS", 3_600_000)
    monkeypatch.setattr(under_test, "LATE_S", 3600.0)
    intake = RecordingIntake()
    ahead_ms = now_ms() + 1_800_000
    stage = intake.partitions.stages[_PARTITION]
    assert isinstance(stage, ClusterStage)
    stage.now_ms = ahead_ms
    await _happen(embedded.settings, 2)
    async with _ticking(embedded.settings, intake) as ticker:
        await ticker.catch_up()
        assert intake.requested == [(_CONFIRMING, 2), (CLOCK_TOPIC, 1)]
        assert await _written_ms(embedded.settings, ticker) == [ahead_ms], "time does not go back"
        assert not ticker.is_late


@pytest.mark.parametrize("by_tick", [True, False], ids=["by a tick", "when time was lost"])
async def test_inputs_are_requested_in_the_generation_that_started(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch, *, by_tick: bool
) -> None:
    """Otherwise the worker applies inputs of partitions that it no longer owns."""
    monkeypatch.setattr(under_test, "DELIVERY_WAIT_S", 0.0)
    intake = RecordingIntake(taken_after=APPLIED_FIRST[0])
    async with AIOKafkaProducer(**embedded.settings.aiokafka_options()) as producer:
        for topic in APPLIED_FIRST:
            await producer.send_and_wait(topic, b"{}", partition=_PARTITION)
    async with _ticking(embedded.settings, intake) as ticker:
        await (ticker.tick() if by_tick else ticker.catch_up())
        assert intake.requested == [(topic, 1) for topic in APPLIED_FIRST]
        assert intake.generations == [0] * len(APPLIED_FIRST)
        assert await _written_ms(embedded.settings, ticker) == []


async def test_a_clock_that_stopped_for_long_is_late(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(under_test, "LATE_S", 3600.0)
    intake = RecordingIntake()
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
    intake = RecordingIntake()
    stage = intake.partitions.stages[_PARTITION]
    stage.apply([_record(now_ms() + 365 * 86_400_000)])
    async with _ticking(embedded.settings, intake) as ticker:
        await ticker.catch_up()
        await ticker.tick()
        (sentence,) = intake.partitions.problems.sentences
        assert "clock of partition 0 is 31535" in sentence or "31536000 s ahead" in sentence
        assert "loadstream partition reset 0" in sentence
        # The worker writes its own time and does not repeat that of next year.
        written_ms = await _written_ms(embedded.settings, ticker)
        assert len(written_ms) == 2
        assert max(written_ms) <= now_ms()
