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


def _rows(count: int, name: str = "n") -> list[RowChange]:
    return [RowChange(f"0/c/t/{name}{number}", b"{}") for number in range(count)]


async def _keys(broker: RunningBroker, topic: str, end: int) -> list[str]:
    entries = await read_range(broker.settings, topic, _PARTITION, 0, end)
    return [(entry.key or b"").decode() for entry in entries]


async def test_tables_that_are_written_at_once_when_the_claim_is_old_share_a_new_one(
    broker: RunningBroker, publisher: FencedPublisher
) -> None:
    publisher._claims[_PARTITION].made_at_s -= 2 * fence.CLAIM_S
    await asyncio.gather(*(publisher.write_rows(topic, _PARTITION, _rows(1)) for topic in _TOPICS))
    for topic in _TOPICS:
        assert await _keys(broker, topic, 3) == ["0//claim/", "0//claim/", "0/c/t/n0"]


async def test_a_claim_is_renewed_after_writes_in_flight_have_arrived(
    broker: RunningBroker, publisher: FencedPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = asyncio.create_task(publisher.write_rows(_TOPICS[0], _PARTITION, _rows(500, "a")))
    await asyncio.sleep(0)
    monkeypatch.setattr(fence, "CLAIM_S", -1.0)
    await publisher.write_rows(_TOPICS[1], _PARTITION, _rows(1, "b"))
    await first
    assert await _keys(broker, _TOPICS[1], 3) == ["0//claim/", "0//claim/", "0/c/t/b0"]
    assert (await _keys(broker, _TOPICS[0], 502))[-2:] == ["0/c/t/a499", "0//claim/"]


async def test_a_partition_that_is_released_while_its_claim_is_made_again_stays_released(
    publisher: FencedPublisher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fence, "CLAIM_S", -1.0)
    writing = asyncio.create_task(publisher.write_rows(_TOPICS[0], _PARTITION, _rows(1)))
    await asyncio.sleep(0)
    publisher.release(_PARTITION)
    with pytest.raises(LostOwnership):
        await writing
    with pytest.raises(LostOwnership):
        await publisher.write_rows(_TOPICS[0], _PARTITION, _rows(1))


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
        assert await publisher.write_rows(_TOPICS[0], _PARTITION, _rows(1)) == [2]
        assert await publisher.write_rows(_TOPICS[0], _PARTITION, _rows(1)) == [3]
        async with other.transaction():
            await other.send(_TOPICS[0], key=b"0/c/t/of nobody", partition=_PARTITION)
        with pytest.raises(LostOwnership):
            await publisher.write_rows(_TOPICS[0], _PARTITION, _rows(1))
    await publisher.stop()
