"""Claims of a partition that are made again, since brokers forget them."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiokafka import AIOKafkaProducer, TopicPartition

from connectors.kafka.extents import Brokers
from connectors.kafka.partition_records import read_range
from streams.stage.records import RowChange
from streams.worker.store import fence
from streams.worker.store.fence import FencedPublisher
from streams.worker.store.publisher import LostOwnership
from tests.conftest import RunningBroker

_PARTITION = 0
#: Changelogs of tables that one worker writes.
_TOPICS = tuple(f"loadstream-{table}-changelog" for table in ("nodes", "cluster", "migrations"))


@pytest.fixture
async def publisher(broker: RunningBroker) -> AsyncIterator[FencedPublisher]:
    """A publisher that has claimed the partition."""
    publisher = FencedPublisher(broker.settings)
    await publisher.start()
    try:
        await publisher.claim(_TOPICS, _PARTITION)
        yield publisher
    finally:
        await publisher.stop()


def _rows(count: int) -> list[RowChange]:
    return [RowChange(f"0/c/t/n{number}", b"{}") for number in range(count)]


async def _write(publisher: FencedPublisher) -> list[int]:
    """Write a row; return its offset."""
    offsets = await publisher.write_rows(_PARTITION, {_TOPICS[0]: _rows(1)})
    return offsets[_TOPICS[0]]


async def _keys(broker: RunningBroker, topic: str, end: int) -> list[str]:
    entries = await read_range(broker.settings, topic, _PARTITION, 0, end)
    return [(entry.key or b"").decode() for entry in entries]


async def test_an_old_claim_is_renewed_once_for_all_tables(
    broker: RunningBroker, publisher: FencedPublisher
) -> None:
    publisher._claims[_PARTITION].made_at_s -= 2 * fence.CLAIM_S
    await publisher.write_rows(_PARTITION, dict.fromkeys(_TOPICS, _rows(1)))
    for topic in _TOPICS:
        assert await _keys(broker, topic, 3) == ["0//claim/", "0//claim/", "0/c/t/n0"]


async def test_a_partition_that_is_released_while_its_claim_is_made_again_stays_released(
    publisher: FencedPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fence, "CLAIM_S", -1.0)
    writing = asyncio.create_task(_write(publisher))
    await asyncio.sleep(0)
    publisher.release(_PARTITION)
    with pytest.raises(LostOwnership):
        await writing
    with pytest.raises(LostOwnership):
        await _write(publisher)


@pytest.mark.kafka
async def test_a_transaction_marker_between_writes_is_no_other_owner(
    clean_kafka: RunningBroker,
) -> None:
    publisher = FencedPublisher(clean_kafka.settings)
    await publisher.start()
    options = clean_kafka.settings.aiokafka_options()
    async with AIOKafkaProducer(transactional_id="of a producer", **options) as other:
        await publisher.claim(_TOPICS, _PARTITION)
        async with other.transaction():
            transaction = other._txn_manager
            transaction.maybe_add_partition_to_txn(TopicPartition(_TOPICS[0], _PARTITION))
            while transaction.partitions_to_add():
                await asyncio.sleep(0.01)
        partition, brokers = (_TOPICS[0], _PARTITION), Brokers(clean_kafka.settings)
        while (await brokers.spans({partition}) or {}).get(partition) != (0, 2):
            await asyncio.sleep(0.1)  # the broker writes the marker after its answer
        await brokers.leave()
        assert await _write(publisher) == [2]
        assert await _write(publisher) == [3]
        async with other.transaction():
            await other.send(_TOPICS[0], key=b"0/c/t/of nobody", partition=_PARTITION)
        with pytest.raises(LostOwnership):
            await _write(publisher)
    await publisher.stop()
