"""Clients, writers and readers wait for unavailable brokers and continue when they return."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiokafka import conn
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest

from connectors.brokers.server import KafkaServer
from connectors.kafka.admin import create_topics
from connectors.kafka.client import connect
from connectors.kafka.partition_records import read_range
from connectors.kafka.reconnect import mend_connections
from connectors.kafka.topics import expected_topics
from connectors.process import event_loop
from streams.worker.store.publisher import Publisher
from tests.conftest import RunningBroker, create_named, delete_topic, running

pytestmark = pytest.mark.timeout(400)

_TIMEOUT_MS = 2_000


def test_a_write_to_a_lost_connection_raises_a_connection_error(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvloop raises where asyncio ignores the write, and aiokafka expects neither."""
    # Commands of other tests in this process may have patched the class.
    (base,) = [cls for cls in conn.AIOKafkaConnection.__mro__ if cls.__module__ == conn.__name__]
    monkeypatch.setattr(conn, "AIOKafkaConnection", base)
    host, _, port = embedded.settings.bootstrap_servers.partition(":")

    async def write() -> None:
        connection: Any = await conn.create_conn(host, int(port))
        # The iteration of the event loop in which the transport is closed and the reading task does
        # not know yet.
        connection._read_task.cancel()
        connection._writer.transport.abort()
        await asyncio.sleep(0.1)
        await connection.send(MetadataRequest([]))

    with pytest.raises(RuntimeError, match="closed") as raised:
        event_loop.run(write())
    assert not isinstance(raised.value, KafkaConnectionError)
    mend_connections()
    with pytest.raises(KafkaConnectionError, match="broken"):
        event_loop.run(write())


@pytest.mark.kafka
async def test_clients_wait_while_the_only_broker_is_unavailable(
    tmp_path: Path,
) -> None:
    """For longer than aiokafka, which gives up after its request timeout."""
    with running(KafkaServer(tmp_path / "kafka")) as server:
        kafka = server.settings
        create_named(kafka, "journal")
        publisher, late = (Publisher(kafka, request_timeout_ms=_TIMEOUT_MS) for _ in range(2))
        await publisher.start()
        await publisher.append("journal", 0, [b"0"])
        server.members[0].kill()
        written = [
            asyncio.create_task(publisher.append("journal", 0, [text])) for text in (b"1", b"2")
        ]
        begun = asyncio.create_task(late.start())
        read = asyncio.create_task(read_range(kafka, "journal", 0, 0, 3))
        await asyncio.sleep(3 * _TIMEOUT_MS / 1000)
        assert not any(task.done() for task in (*written, begun, read))
        await asyncio.to_thread(server.start_broker)
        await begun
        assert await asyncio.gather(*written) == [1, 2]
        assert [entry.value for entry in await read] == [b"0", b"1", b"2"]
        assert await late.append("journal", 0, [b"3"]) == 3
        for client in (publisher, late):
            await client.stop()


async def test_writes_to_a_missing_topic_wait_for_it(
    clean_kafka: RunningBroker,
) -> None:
    kafka = clean_kafka.settings
    connection = connect(kafka)
    publisher = Publisher(kafka, request_timeout_ms=_TIMEOUT_MS)
    await publisher.start()
    await publisher.append("journal", 0, [b"0"])
    await asyncio.to_thread(delete_topic, connection, "journal")
    written = [asyncio.create_task(publisher.append("journal", 0, [text])) for text in (b"1", b"2")]
    await asyncio.sleep(3 * _TIMEOUT_MS / 1000)
    assert not any(task.done() for task in written)
    await asyncio.to_thread(create_topics, connection, expected_topics(kafka))
    assert await asyncio.gather(*written) == [0, 1]
    await publisher.stop()
