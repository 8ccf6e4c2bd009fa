"""The observer of stages and brokers."""

import asyncio

import pytest
from aiokafka import AIOKafkaProducer
from prometheus_client import CollectorRegistry

from connectors.brokers.embedded import EmbeddedBroker
from connectors.kafka import extents
from schemas.settings.connection import KafkaSettings
from streams.cluster.stage import ClusterStage
from streams.worker.partitions import Partitions
from streams.worker.report import observer as observer_module
from streams.worker.report.health import Health
from streams.worker.report.observer import Gauges, Observer
from streams.worker.store.pipeline import Pipeline
from streams.worker.store.publisher import Publisher
from tests.conftest import RunningBroker
from tests.streams.worker.parts import NoBroker, own_partition, positions_of

TOPIC = "scheduling-requests"


def _observer(
    settings: KafkaSettings, partitions: Partitions, publisher: Publisher | None = None
) -> tuple[Observer, CollectorRegistry, Health]:
    registry, gauges = CollectorRegistry(), Gauges()
    registry.register(gauges)
    health = Health(lag_records_max=2)
    observer = Observer(settings, gauges, health)
    observer.add_stage(partitions, Pipeline(NoBroker()), publisher or Publisher(settings))
    return observer, registry, health


def _lag(registry: CollectorRegistry) -> float | None:
    labels = {"stage": "cluster", "topic": TOPIC, "partition": "0"}
    return registry.get_sample_value("loadstream_input_lag_records", labels)


async def test_lag_is_the_number_of_records_after_the_position(embedded: RunningBroker) -> None:
    async with AIOKafkaProducer(**embedded.settings.aiokafka_options()) as producer:
        for _ in range(3):
            await producer.send_and_wait(TOPIC, b"{}", partition=0)
    partitions = own_partition(TOPIC)
    observer, registry, health = _observer(embedded.settings, partitions)
    try:
        await observer.take_snapshot()
        assert _lag(registry) == 3
        assert list(health.find_obstacles()) == ["3 records wait to be applied; allowed are 2"]
        positions_of(partitions)[TOPIC] = 1
        await observer.take_snapshot()
        assert _lag(registry) == 1
        assert not health.find_obstacles()
        del partitions.stages[0]
        await observer.take_snapshot()
        assert _lag(registry) is None
    finally:
        await observer.stop()


async def test_partitions_that_were_taken_over_are_counted_before_the_next_look_is_due(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(observer_module, "CHECK_INTERVAL_S", 3_600.0)
    partitions = own_partition(TOPIC)
    observer, _, health = _observer(embedded.settings, partitions)
    running = asyncio.create_task(observer.run())
    try:
        async with asyncio.timeout(60):
            while health.find_obstacles():
                await asyncio.sleep(0.05)
            partitions.stages[1] = ClusterStage(1, 4)
            assert health.find_obstacles()
            while health.find_obstacles():
                await asyncio.sleep(0.05)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


@pytest.mark.broker
async def test_deleted_records_are_no_lag() -> None:
    with EmbeddedBroker() as broker:
        payload = b"x" * 900_000
        async with AIOKafkaProducer(**broker.settings.aiokafka_options()) as producer:
            for _ in range(12):  # a partition keeps about 5 MB
                await producer.send_and_wait(TOPIC, payload, partition=0)
        observer, registry, _ = _observer(broker.settings, own_partition(TOPIC))
        try:
            await observer.take_snapshot()
            lag = _lag(registry)
        finally:
            await observer.stop()
    assert lag is not None
    assert 0 < lag < 12


@pytest.mark.broker
async def test_metrics_are_reported_while_a_broker_is_unavailable(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with EmbeddedBroker() as broker:
        settings = broker.settings
        publisher = Publisher(settings)
        publisher.written_bytes["journal"] = 7
        observer, registry, _ = _observer(settings, own_partition(TOPIC), publisher)
        await observer.take_snapshot()
        assert registry.get_sample_value("loadstream_broker_up") == 1
    monkeypatch.setattr(extents, "ANSWER_S", 1.0)
    try:
        await observer.take_snapshot()
        assert registry.get_sample_value("loadstream_broker_up") == 0
        assert _lag(registry) is None
        labels = {"stage": "cluster", "topic": "journal"}
        assert registry.get_sample_value("loadstream_written_bytes_total", labels) == 7
    finally:
        await observer.stop()
