"""Records are sent without waiting, refused with an error, and reported when they are lost."""

import asyncio
from collections.abc import AsyncIterator

import pytest
from aiokafka.errors import NodeNotReadyError, TopicAuthorizationFailedError

from connectors.brokers.embedded import EmbeddedBroker
from connectors.kafka.client import BrokerUnavailable, Connection, connect
from connectors.kafka.partition_records import read_since
from connectors.kafka.producer import Producer, RecordTooLong, Sender
from connectors.kafka.reader import Reader, Record
from schemas.base.limits import VALUE_BYTES_MAX
from schemas.messages.clock import ClockTick
from schemas.messages.commands import CommandOutcome
from schemas.messages.lists import ListBegin
from schemas.messages.nodes import NodeState
from schemas.topics.codec import decode
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker
from tests.connectors.kafka.messages import NOW_MS
from tests.connectors.kafka.test_leadership import outcome

_TOPIC = "command-outcomes"


def too_long() -> NodeState:
    """Return a node with more annotations than a record accepts."""
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
    messages = [decode(_TOPIC, record.value) async for record in records]
    return [message.command_id for message in messages if isinstance(message, CommandOutcome)]


async def test_an_invalid_record_is_refused_and_later_records_are_sent(
    embedded: RunningBroker,
) -> None:
    async with Producer(embedded.settings) as producer:
        with pytest.raises(RecordTooLong, match=r"topic node-state: the record has \d+ bytes"):
            await producer.send("node-state", too_long())
        await producer.deliver(_TOPIC, [outcome(1)])


@pytest.fixture
async def cut_off(embedded: RunningBroker) -> AsyncIterator[Producer]:
    """A producer without a connection; deleting `client.send` reconnects it."""

    async def refused(*args: object, **more: object) -> None:
        raise NodeNotReadyError("cut off")

    async with Producer(embedded.settings) as producer:
        await producer.deliver(_TOPIC, [outcome(1)])
        producer._producer.client.send = refused
        yield producer


async def test_the_producer_waits_for_unavailable_brokers(
    embedded: RunningBroker, cut_off: Producer
) -> None:
    waiting = asyncio.create_task(cut_off.deliver(_TOPIC, [outcome(2)]))
    await asyncio.sleep(2)
    assert not waiting.done()
    cut_off.check()
    del cut_off._producer.client.send
    await asyncio.wait_for(waiting, 30)
    assert await ids(embedded) == ["command-0001", "command-0002"]


async def test_the_producer_waits_for_a_partition_without_a_leader(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.kafka.producer.REQUEST_S", 1.0)
    async with Producer(embedded.settings) as producer:
        await producer.deliver(_TOPIC, [outcome(1)])
        metadata = producer._producer.client.cluster
        metadata.leader_for_partition = lambda partition: -1
        waiting = asyncio.create_task(producer.deliver(_TOPIC, [outcome(2)]))
        await asyncio.sleep(3)
        assert not waiting.done()
        producer.check()
        del metadata.leader_for_partition
        await asyncio.wait_for(waiting, 30)
    assert await ids(embedded) == ["command-0001", "command-0002"]


async def test_closing_does_not_wait_for_unavailable_brokers(
    cut_off: Producer, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("connectors.kafka.producer.CLOSE_S", 1.0)
    await cut_off.send(_TOPIC, outcome(2))
    await asyncio.wait_for(cut_off.__aexit__(None, None, None), 30)
    assert "1 records were not acknowledged after 1 s: dropped" in caplog.text


async def test_a_record_refused_by_a_broker_is_an_error_without_further_records(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with Producer(embedded.settings) as producer:
        await producer.deliver(_TOPIC, [outcome(1)])

        async def refused(*args: object, **more: object) -> None:
            raise TopicAuthorizationFailedError(_TOPIC)

        producer._producer.client.send = refused
        lost = await producer.send(_TOPIC, outcome(2))
        await asyncio.wait((lost,), timeout=30)
        with pytest.raises(
            BrokerUnavailable, match="1 of 2 records were not acknowledged; the first is record 2: "
        ):
            producer.check()
        with pytest.raises(
            BrokerUnavailable, match="1 of 2 records were not acknowledged; the first is record 2: "
        ):
            await producer.send(_TOPIC, outcome(3))
        del producer._producer.client.send


def test_a_message_is_sent_to_the_partition_of_its_key_or_to_a_given_one(
    broker: RunningBroker,
) -> None:
    connection = connect(broker.settings)
    out = Sender(connection)
    lists = [ListBegin(cluster=f"c{number}", list_id="l") for number in range(8)]
    ticks = [ClockTick(partition=number, now_ms=NOW_MS) for number in range(4)]
    for message in lists:
        out.send("node-state", message)
    for tick in ticks:
        out.send("clock", tick)
    out.flush()
    assert not out.has_failed
    out.close()
    places = [(topic, partition) for topic in ("node-state", "clock") for partition in range(4)]
    received: list[Record] = []
    with Reader(connection, dict.fromkeys(places, 0)) as reader:
        while len(received) < 12:
            received += (record for record in reader.more(due=True) if isinstance(record, Record))
    for record in received:
        decoded = decode(record.topic, record.value)
        if isinstance(decoded, ClockTick):
            assert (record.partition, record.timestamp_ms) == (decoded.partition, NOW_MS)
        else:
            assert decoded in lists
            assert record.partition == partition_for(decoded.cluster.encode(), 4)


def _send_one_record(connection: Connection) -> Sender:
    """Return a sender that has sent a record; retries if this process was paused too long."""
    while True:
        out = Sender(connection)
        out.send("clock", ClockTick(partition=0, now_ms=NOW_MS))
        try:
            out.flush()
        except BrokerUnavailable:
            out.close()
        else:
            return out


@pytest.mark.broker
def test_the_loss_of_the_broker_is_reported_with_the_lost_records(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("connectors.kafka.producer.DELIVERY_S", 1.5)
    with EmbeddedBroker() as embedded:
        out = _send_one_record(connect(embedded.settings))
        embedded.stop()
        for number in range(3):
            out.send("clock", ClockTick(partition=0, now_ms=NOW_MS + number))
        with pytest.raises(BrokerUnavailable, match=r"3 of 4 records .* the first is record 2"):
            out.flush()
        assert out.has_failed
        out.close()
