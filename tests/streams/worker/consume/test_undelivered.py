"""Undelivered records are read after a while."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from aiokafka import AIOKafkaProducer

from schemas.settings.connection import KafkaSettings
from streams.worker.consume.undelivered import UndeliveredWatch
from streams.worker.store.topic_watch import TopicChanged
from tests.conftest import RunningBroker
from tests.streams.worker.parts import RecordingIntake

_TOPIC = "node-usage"
_PARTITION = 0


async def _happen(kafka: KafkaSettings, count: int) -> None:
    async with AIOKafkaProducer(**kafka.aiokafka_options()) as producer:
        for _ in range(count):
            await producer.send_and_wait(_TOPIC, b"{}", partition=_PARTITION)


@asynccontextmanager
async def _undelivered(
    kafka: KafkaSettings, intake: RecordingIntake
) -> AsyncIterator[UndeliveredWatch]:
    watch = UndeliveredWatch(kafka, intake)
    # The embedded broker creates a topic at the first request for it.
    brokers = watch.brokers
    while await brokers.spans({(_TOPIC, _PARTITION)}) is None:
        await asyncio.sleep(0.1)
    try:
        yield watch
    finally:
        await brokers.leave()


async def test_undelivered_records_are_read_once(broker: RunningBroker) -> None:
    intake = RecordingIntake(_TOPIC)
    async with _undelivered(broker.settings, intake) as watch:
        await _happen(broker.settings, 3)
        await watch.check_once()
        assert intake.requested == []
        await watch.check_once()
        assert intake.requested == [(_TOPIC, 3)]
        for _ in range(3):
            await watch.check_once()
        assert len(intake.requested) == 1


async def test_a_partition_with_progress_is_not_read(broker: RunningBroker) -> None:
    intake = RecordingIntake(_TOPIC)
    async with _undelivered(broker.settings, intake) as watch:
        await _happen(broker.settings, 4)
        for number in range(3):
            intake.positions[_TOPIC] = number
            await watch.check_once()
        assert intake.requested == []


async def test_offsets_without_a_record_are_requested_once(broker: RunningBroker) -> None:
    intake = RecordingIntake(_TOPIC, holds_records=False)
    async with _undelivered(broker.settings, intake) as watch:
        await _happen(broker.settings, 1)
        for _ in range(6):
            await watch.check_once()
        assert len(intake.requested) == 1
        await _happen(broker.settings, 1)
        for _ in range(2):
            await watch.check_once()
        assert [end for _, end in intake.requested] == [1, 2]


async def test_a_partition_that_ends_before_the_applied_offset_stops_the_worker(
    embedded: RunningBroker,
) -> None:
    intake = RecordingIntake(_TOPIC)
    async with _undelivered(embedded.settings, intake) as watch:
        await _happen(embedded.settings, 2)
        intake.positions[_TOPIC] = 6
        with pytest.raises(TopicChanged, match="ends at offset 2, but was applied up to offset 6"):
            await watch.check_once()
