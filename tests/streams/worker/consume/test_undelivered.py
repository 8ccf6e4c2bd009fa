"""Records that nobody delivers are read after a while, and nothing else is."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaProducer

from schemas.settings.connection import KafkaSettings
from streams.worker.consume.undelivered import CHECKS_WITHOUT_PROGRESS, UndeliveredWatch
from streams.worker.store.topic_watch import TopicChanged
from tests.conftest import RunningBroker
from tests.streams.worker.parts import AskedIntake

_TOPIC = "node-usage"
_PARTITION = 0


async def _happen(kafka: KafkaSettings, count: int) -> None:
    async with AIOKafkaProducer(**kafka.aiokafka_options()) as producer:
        for _ in range(count):
            await producer.send_and_wait(_TOPIC, b"{}", partition=_PARTITION)


@asynccontextmanager
async def _undelivered(
    kafka: KafkaSettings, intake: AskedIntake
) -> AsyncIterator[UndeliveredWatch]:
    watch = UndeliveredWatch(kafka, intake)
    # The embedded broker makes a topic when it is asked for first.
    brokers = watch.brokers
    while await brokers.spans({(_TOPIC, _PARTITION)}) is None:
        await asyncio.sleep(0.1)
    try:
        yield watch
    finally:
        await brokers.leave()


async def test_what_does_not_come_between_looks_is_read_once(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    intake = AskedIntake(_TOPIC)
    async with _undelivered(broker.settings, intake) as watch:
        await _happen(broker.settings, 3)
        for _ in range(CHECKS_WITHOUT_PROGRESS - 1):
            await watch.check_once()
        assert intake.asked == []
        await watch.check_once()
        assert intake.asked == [(_TOPIC, 3)]
        for _ in range(CHECKS_WITHOUT_PROGRESS + 1):
            await watch.check_once()
        assert len(intake.asked) == 1
    assert "partition 0: read the offsets 0 to 2, which were not delivered" in caplog.text


async def test_a_partition_that_moves_is_left_alone(broker: RunningBroker) -> None:
    intake = AskedIntake(_TOPIC)
    async with _undelivered(broker.settings, intake) as watch:
        await _happen(broker.settings, 2 * CHECKS_WITHOUT_PROGRESS)
        for number in range(2 * CHECKS_WITHOUT_PROGRESS - 1):
            intake.positions[_TOPIC] = number
            await watch.check_once()
        assert intake.asked == []


async def test_offsets_that_hold_nothing_are_asked_for_once_and_without_a_word(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    intake = AskedIntake(_TOPIC, holds_records=False)
    async with _undelivered(broker.settings, intake) as watch:
        await _happen(broker.settings, 1)
        for _ in range(3 * CHECKS_WITHOUT_PROGRESS):
            await watch.check_once()
        assert len(intake.asked) == 1
        await _happen(broker.settings, 1)
        for _ in range(CHECKS_WITHOUT_PROGRESS):
            await watch.check_once()
        assert [end for _, end in intake.asked] == [1, 2]
    assert "were not delivered" not in caplog.text


async def test_a_partition_that_ends_before_what_was_applied_stops_the_worker(
    embedded: RunningBroker,
) -> None:
    intake = AskedIntake(_TOPIC)
    async with _undelivered(embedded.settings, intake) as watch:
        await _happen(embedded.settings, 2)
        intake.positions[_TOPIC] = 6
        with pytest.raises(TopicChanged, match="ends at offset 2, but was applied up to offset 6"):
            await watch.check_once()
