"""Records that nobody delivers are read after a while, and nothing else is."""

import asyncio
from collections.abc import AsyncIterator, Collection, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import pytest
from aiokafka import AIOKafkaProducer

from schemas.connection import KafkaSettings
from streams.cluster.stage import ClusterStage
from streams.stage.records import Stage
from streams.worker.topic_identity import TopicChanged
from streams.worker.undelivered import LOOKS, UndeliveredWatch
from tests.conftest import RunningBroker

_TOPIC = "node-usage"
_PARTITION = 0


@dataclass
class _Runner:
    """A runner of one partition to which nothing is delivered."""

    topics: Collection[str] = (_TOPIC,)
    stages: Mapping[int, Stage] = field(default_factory=lambda: {_PARTITION: ClusterStage(0, 4)})
    recovered: bool = True
    generation: int = 0
    holds_records: bool = True
    asked: list[tuple[str, int, int]] = field(default_factory=list)

    @property
    def positions(self) -> dict[str, int]:
        stage = self.stages[_PARTITION]
        assert isinstance(stage, ClusterStage)
        return stage.positions

    def position(self, topic: str, partition: int) -> int:
        assert partition == _PARTITION
        return self.positions.get(topic, -1)

    async def apply_up_to(
        self,
        topic: str,
        partition: int,
        end: int,
        until_s: float,
        generation: int,
        *,
        undelivered: bool = False,
    ) -> bool:
        assert undelivered
        assert generation == self.generation
        self.asked.append((topic, partition, end))
        if self.holds_records:
            self.positions[topic] = end - 1
        return True


async def _happen(kafka: KafkaSettings, count: int) -> None:
    async with AIOKafkaProducer(**kafka.aiokafka_options()) as producer:
        for _ in range(count):
            await producer.send_and_wait(_TOPIC, b"{}", partition=_PARTITION)


@asynccontextmanager
async def _undelivered(kafka: KafkaSettings) -> AsyncIterator[UndeliveredWatch]:
    watch = UndeliveredWatch(kafka)
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
    runner = _Runner()
    async with _undelivered(broker.settings) as watch:
        await _happen(broker.settings, 3)
        for _ in range(LOOKS - 1):
            await watch.look(runner)
        assert runner.asked == []
        await watch.look(runner)
        assert runner.asked == [(_TOPIC, _PARTITION, 3)]
        for _ in range(LOOKS + 1):
            await watch.look(runner)
        assert len(runner.asked) == 1
    assert "partition 0: read from offset 0 to 2, which were not delivered" in caplog.text


async def test_a_partition_that_moves_is_left_alone(broker: RunningBroker) -> None:
    runner = _Runner()
    async with _undelivered(broker.settings) as watch:
        await _happen(broker.settings, 2 * LOOKS)
        for number in range(2 * LOOKS - 1):
            runner.positions[_TOPIC] = number
            await watch.look(runner)
        assert runner.asked == []


async def test_offsets_that_hold_nothing_are_asked_for_once_and_without_a_word(
    broker: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    runner = _Runner(holds_records=False)
    async with _undelivered(broker.settings) as watch:
        await _happen(broker.settings, 1)
        for _ in range(3 * LOOKS):
            await watch.look(runner)
        assert len(runner.asked) == 1
        await _happen(broker.settings, 1)
        for _ in range(LOOKS):
            await watch.look(runner)
        assert [end for _, _, end in runner.asked] == [1, 2]
    assert "were not delivered" not in caplog.text


async def test_a_partition_that_ends_before_what_was_applied_stops_the_worker(
    embedded: RunningBroker,
) -> None:
    runner = _Runner()
    async with _undelivered(embedded.settings) as watch:
        await _happen(embedded.settings, 2)
        runner.positions[_TOPIC] = 6
        with pytest.raises(TopicChanged, match="ends at offset 2, but was applied up to 6"):
            await watch.look(runner)
