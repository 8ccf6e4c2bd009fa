"""Fetched records are delivered or returned, also during a rebalance."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRecord, TopicPartition
from faust.types import TP

from streams.worker.consume.transport import WorkerApp
from streams.worker.packed_messages import PACKED_RECORDS_MAX, FetchedRange
from tests.conftest import RunningBroker

INPUT, TABLE = "node-usage", "table-changelog"


def record(topic: str, offset: int, partition: int = 0) -> ConsumerRecord:
    """A record as aiokafka fetches it."""
    return ConsumerRecord(topic, partition, offset, 0, 0, b"k", b"v", None, 1, 1, ())


def stretches(*fetched: ConsumerRecord) -> dict[TP, FetchedRange]:
    """Fetched ranges of these records: from the first to the last of each partition."""
    records: dict[TP, list[ConsumerRecord]] = {}
    for record in fetched:
        records.setdefault(TP(record.topic, record.partition), []).append(record)
    return {tp: FetchedRange(of[0].offset, of[-1].offset + 1, of) for tp, of in records.items()}


class Thread:
    """A stand-in for the fetching thread; records the ranges to read again."""

    def __init__(self) -> None:
        self.ranges_to_read: list[dict[Any, tuple[int, int]]] = []

    async def call_thread(self, call: Callable[..., Any], *args: Any) -> Any:
        return call(*args)

    def read_again(self, ranges: dict[Any, tuple[int, int]]) -> None:
        self.ranges_to_read.append(ranges)


class Fetching:
    """A consumer of a worker with given fetch results and no broker."""

    def __init__(self) -> None:
        self.app = WorkerApp("test", broker="kafka://localhost:1", web_enabled=False)
        self.app.packed_topics = frozenset({INPUT})
        self.app.consumer_generation_id = 1
        self.consumer: Any = cast(Any, self.app.consumer)
        self.thread = Thread()
        vars(self.consumer).update(flow_active=True, _thread=self.thread, highwater=lambda tp: 0)
        self.active: set[TP] = set()
        self.meanwhile: Callable[[], None] = lambda: None
        """Happens while the fetch is under way."""

    async def fetch(self, *fetched: ConsumerRecord) -> list[tuple[str, int, int]]:
        """Topic, partition and offset of the delivered records."""

        async def brought(_: float) -> tuple[Any, Any]:
            self.meanwhile()
            return stretches(*fetched), self.active

        self.consumer._wait_next_records = brought
        return [
            (tp.topic, tp.partition, message.offset)
            async for tp, message in self.consumer.getmany(1.0)
        ]


@pytest.fixture
def fetching() -> Fetching:
    return Fetching()


async def test_fetched_records_of_active_partitions_are_delivered(fetching: Fetching) -> None:
    fetching.active |= {TP(INPUT, 0), TP(TABLE, 0)}
    many = [record(INPUT, offset) for offset in range(PACKED_RECORDS_MAX + 1)]
    handed = await fetching.fetch(*many, record(TABLE, 7), record(TABLE, 8))
    assert sorted(handed) == [
        (INPUT, 0, PACKED_RECORDS_MAX - 1), (INPUT, 0, PACKED_RECORDS_MAX), (TABLE, 0, 7), (TABLE, 0, 8),
    ]  # fmt: skip
    assert fetching.thread.ranges_to_read == []


async def test_records_of_inactive_partitions_are_returned(
    fetching: Fetching,
) -> None:
    fetching.active |= {TP(INPUT, 0)}
    handed = await fetching.fetch(record(INPUT, 3), record(TABLE, 7), record(TABLE, 8))
    assert handed == [(INPUT, 0, 3)]
    assert fetching.thread.ranges_to_read == [{TP(TABLE, 0): (7, 9)}]


@pytest.mark.parametrize("change", ["generation", "flow"])
async def test_records_fetched_during_a_rebalance_are_returned(
    fetching: Fetching, change: str
) -> None:
    fetching.active |= {TP(INPUT, 0), TP(TABLE, 0)}

    def rebalance() -> None:
        if change == "generation":
            fetching.app.consumer_generation_id = 2
        else:
            fetching.consumer.flow_active = False

    fetching.meanwhile = rebalance
    assert await fetching.fetch(record(INPUT, 3), record(TABLE, 7)) == []
    assert fetching.thread.ranges_to_read == [{TP(INPUT, 0): (3, 4), TP(TABLE, 0): (7, 8)}]


async def test_a_partition_that_is_assigned_again_leaves_no_gap(fetching: Fetching) -> None:
    """Once a record was held back, so are those after it."""
    fetching.active |= {TP(TABLE, 1)}
    records = stretches(*(record(TABLE, at, number) for number in (0, 1) for at in (4, 5, 6)))

    async def brought(_: float) -> tuple[Any, Any]:
        return records, fetching.active

    fetching.consumer._wait_next_records = brought
    handed = []
    async for tp, message in fetching.consumer.getmany(1.0):
        handed.append((tp.partition, message.offset))
        fetching.active.add(TP(TABLE, 0))
    assert handed == [(1, 4), (1, 5), (1, 6)]
    assert fetching.thread.ranges_to_read == [{TP(TABLE, 0): (4, 7)}]


async def test_offsets_without_a_record_are_delivered_as_gaps(fetching: Fetching) -> None:
    """A changelog gap advances recovery; input gaps are part of the next packed message."""
    fetching.active |= {TP(INPUT, 0), TP(INPUT, 1), TP(TABLE, 0)}
    ranges = {
        TP(INPUT, 0): FetchedRange(3, 9, [record(INPUT, 4), record(INPUT, 6), record(INPUT, 7)]),
        TP(INPUT, 1): FetchedRange(3, 4, []),
        TP(TABLE, 0): FetchedRange(3, 9, [record(TABLE, 4), record(TABLE, 6)]),
    }

    async def brought(_: float) -> tuple[Any, Any]:
        return ranges, fetching.active

    fetching.consumer._wait_next_records = brought
    messages = [(tp, message) async for tp, message in fetching.consumer.getmany(1.0)]
    inputs = [message for tp, message in messages if tp.topic == INPUT]
    assert [(message.partition, message.offset, message.empty) for message in inputs] == [
        (0, 8, {(INPUT, 0, 3): 4, (INPUT, 0, 5): 6, (INPUT, 0, 8): 9}),
        (1, 3, {(INPUT, 1, 3): 4}),
    ]
    assert [message.offset for tp, message in messages if tp == TP(TABLE, 0)] == [4, 6, 8]
    assert fetching.thread.ranges_to_read == []


@asynccontextmanager
async def filled(broker: RunningBroker) -> AsyncIterator[tuple[Any, AIOKafkaConsumer]]:
    """A consumer thread over a consumer that has read ten records."""
    options = broker.settings.aiokafka_options()
    partition = TopicPartition(INPUT, 0)
    producer = AIOKafkaProducer(**options)
    consumer = AIOKafkaConsumer(auto_offset_reset="earliest", **options)
    await producer.start()
    await consumer.start()
    try:
        for number in range(10):
            await producer.send_and_wait(INPUT, str(number).encode(), partition=0)
        consumer.assign([partition])
        while await consumer.position(partition) < 10:
            await consumer.getmany(timeout_ms=1_000)
        thread = Fetching().consumer._new_consumer_thread()
        thread._ensure_consumer = lambda: consumer
        yield thread, consumer
    finally:
        await consumer.stop()
        await producer.stop()


async def offsets(consumer: AIOKafkaConsumer, partition: TopicPartition) -> list[int]:
    """Offsets from the position to the end."""
    found_offsets: list[int] = []
    while await consumer.position(partition) < 10:
        fetched = await consumer.getmany(timeout_ms=1_000)
        found_offsets += [record.offset for records in fetched.values() for record in records]
    return found_offsets


async def test_returned_records_are_read_again_unless_the_position_moved(
    broker: RunningBroker,
) -> None:
    partition = TopicPartition(INPUT, 0)
    async with filled(broker) as (thread, consumer):
        thread.read_again({partition: (6, 10)})
        assert await offsets(consumer, partition) == [6, 7, 8, 9]
        consumer.seek(partition, 2)
        thread.read_again({partition: (6, 10)})
        assert await offsets(consumer, partition) == list(range(2, 10))
        thread.read_again({TopicPartition(INPUT, 1): (0, 5)})
        consumer.unsubscribe()
        thread.read_again({partition: (6, 10)})


async def test_rows_for_a_standby_are_kept_after_recovery_and_dropped_by_a_rebalance() -> None:
    """Faust resumes the flow at the end of recovery, after standbys were read."""
    app: Any = WorkerApp("test", broker="kafka://localhost:1", web_enabled=False)
    flow, rows = app.flow_control, app.tables.changelog_queue
    flow.resume()
    await rows.put("row")
    flow.resume()
    assert rows.qsize() == 1
    flow.suspend()
    flow.resume()
    assert rows.empty(), "what was read before a rebalance is read again after it"
