"""A clock that runs ahead of the worker's, end to end: refused, and reported."""

import time
from pathlib import Path

import pytest
from aiokafka import AIOKafkaProducer

from connectors.process.local_ports import find_free_port
from schemas.messages.clock import ClockTick
from schemas.settings.connection import KafkaSettings
from schemas.topics.codec import encode
from tests.conftest import RunningBroker, eventually
from tests.streams.noticing import problems
from tests.streams.worker_process import POSITIONS, Worker, client

_YEAR_MS = 365 * 86_400_000

pytestmark = pytest.mark.timeout(400)


async def _tick(kafka: KafkaSettings, ahead_ms: int) -> None:
    """Somebody writes a tick into partition 0."""
    tick = ClockTick(partition=0, now_ms=time.time_ns() // 1_000_000 + ahead_ms)
    async with AIOKafkaProducer(**kafka.aiokafka_options()) as producer:
        await producer.send_and_wait("clock", encode(tick), key=b"0", partition=0)


async def test_a_tick_of_next_year_is_refused_and_one_that_was_applied_is_reported(
    embedded: RunningBroker, tmp_path: Path
) -> None:
    kafka = embedded.settings
    port = find_free_port()
    # With an external clock no tick is refused.
    trusting = Worker(kafka, tmp_path, clock="external")
    async with client(kafka, trusting, POSITIONS) as seen:
        await _tick(kafka, _YEAR_MS)
        with trusting:
            await seen.until(lambda: seen.applied("clock") >= 0)
            trusting.stop()
    worker = Worker(kafka, tmp_path, metrics_port=str(port))
    async with client(kafka, worker, "dead-letters") as seen:
        with worker:
            remedy = "loadstream partition reset 0"
            assert eventually(lambda: remedy in problems(port)), worker.log()
            assert "clock of partition 0 is" in worker.whole_log()
            await _tick(kafka, 2 * _YEAR_MS)
            await seen.until(lambda: bool(seen.of("dead-letters")))
            (letter,) = seen.of("dead-letters")
            assert (letter.topic, letter.category) == ("clock", "future")
