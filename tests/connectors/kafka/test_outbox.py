"""Records are handed over without waiting, refused by name, and missed when they are lost."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiokafka.errors import NodeNotReadyError, TopicAuthorizationFailedError

from connectors.kafka.client import BrokerUnavailable
from connectors.kafka.outbox import Outbox, RecordTooLong
from connectors.kafka.partition_records import read_since
from schemas.base.limits import VALUE_BYTES_MAX
from schemas.messages.nodes import NodeState
from schemas.messages.outcomes import CommandOutcome
from schemas.topics.codec import decode
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker
from tests.connectors.kafka.test_leadership import outcome

_TOPIC = "command-outcomes"


def too_long() -> NodeState:
    """A node with more annotations than a record carries."""
    piece = 60_000
    return NodeState(
        cluster="c1",
        node="n1",
        event="changed",
        allocatable={"cpu": "1"},
        annotations={f"a{number}": "x" * piece for number in range(VALUE_BYTES_MAX // piece + 1)},
    )


async def ids(broker: RunningBroker) -> list[str]:
    partition = partition_for(b"c1", broker.settings.partitions)
    records = read_since(broker.settings, _TOPIC, partition, 0)
    found = [decode(_TOPIC, record.value) async for record in records]
    return [each.command_id for each in found if isinstance(each, CommandOutcome)]


async def test_a_record_that_no_reader_takes_is_refused_by_name_and_stops_nothing(
    embedded: RunningBroker,
) -> None:
    async with Outbox(embedded.settings) as outbox:
        with pytest.raises(RecordTooLong, match=r"topic node-state: the record has \d+ bytes"):
            await outbox.send("node-state", too_long())
        await outbox.deliver(_TOPIC, [outcome(1)])


async def test_a_dropped_record_makes_room(
    embedded: RunningBroker,
) -> None:
    async with Outbox(embedded.settings) as outbox:
        outbox._room = asyncio.Semaphore(1)
        await outbox.deliver(_TOPIC, [outcome(1)])
        outbox._producer.client._wait_on_metadata = lambda topic: asyncio.Event().wait()
        dropped = asyncio.create_task(outbox.send(_TOPIC, outcome(2)))
        await asyncio.sleep(0.1)
        dropped.cancel()
        await asyncio.wait((dropped,))
        del outbox._producer.client._wait_on_metadata
        await asyncio.wait_for(outbox.deliver(_TOPIC, [outcome(3)]), 30)


@pytest.fixture
async def cut_off(embedded: RunningBroker) -> AsyncIterator[Outbox]:
    """An outbox whose requests reach no broker any more; `client.send` is its own again if deleted."""

    async def refused(*args: object, **more: object) -> None:
        raise NodeNotReadyError("cut off")

    async with Outbox(embedded.settings) as outbox:
        await outbox.deliver(_TOPIC, [outcome(1)])
        outbox._producer.client.send = refused
        yield outbox


async def test_brokers_that_are_away_are_waited_for(
    embedded: RunningBroker, cut_off: Outbox
) -> None:
    waiting = asyncio.create_task(cut_off.deliver(_TOPIC, [outcome(2)]))
    await asyncio.sleep(2)
    assert not waiting.done()
    cut_off.check()
    del cut_off._producer.client.send
    await asyncio.wait_for(waiting, 30)
    assert await ids(embedded) == ["command-0001", "command-0002"]


async def test_a_partition_that_has_no_leader_for_longer_than_a_request_takes_is_waited_for(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.kafka.outbox.REQUEST_S", 1.0)
    async with Outbox(embedded.settings) as outbox:
        await outbox.deliver(_TOPIC, [outcome(1)])
        metadata = outbox._producer.client.cluster
        metadata.leader_for_partition = lambda place: -1
        waiting = asyncio.create_task(outbox.deliver(_TOPIC, [outcome(2)]))
        await asyncio.sleep(3)
        assert not waiting.done()
        outbox.check()
        del metadata.leader_for_partition
        await asyncio.wait_for(waiting, 30)
    assert await ids(embedded) == ["command-0001", "command-0002"]


async def test_at_the_end_brokers_that_are_away_are_not_waited_for(
    cut_off: Outbox, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("connectors.kafka.outbox.CLOSE_S", 1.0)
    await cut_off.send(_TOPIC, outcome(2))
    await asyncio.wait_for(cut_off.__aexit__(None, None, None), 30)
    assert "1 records were not acknowledged after 1 s: dropped" in caplog.text


async def test_a_record_that_a_broker_refuses_is_an_error_also_without_another_record(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Outbox(embedded.settings) as outbox:
        await outbox.deliver(_TOPIC, [outcome(1)])

        async def refused(*args: object, **more: object) -> None:
            raise TopicAuthorizationFailedError(_TOPIC)

        outbox._producer.client.send = refused
        lost = await outbox.send(_TOPIC, outcome(2))
        await asyncio.wait((lost,), timeout=30)
        with pytest.raises(BrokerUnavailable, match="the broker refused a record"):
            outbox.check()
        with pytest.raises(BrokerUnavailable, match="the broker refused a record"):
            await outbox.send(_TOPIC, outcome(3))
        del outbox._producer.client.send
