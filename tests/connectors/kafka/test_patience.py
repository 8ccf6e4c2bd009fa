"""Clients of aiokafka go on after a connection to a broker that was lost."""

import asyncio
from typing import Any

import pytest
from aiokafka import conn
from aiokafka.errors import KafkaConnectionError
from aiokafka.protocol.metadata import MetadataRequest

from connectors.kafka import patience
from connectors.process import event_loop
from tests.conftest import RunningBroker


def test_a_write_to_a_connection_that_has_just_been_lost_is_a_lost_connection(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """uvloop raises where asyncio passes the write over, and aiokafka expects neither."""
    # Commands that other tests have run in this process may have mended it for good.
    (own,) = [each for each in conn.AIOKafkaConnection.__mro__ if each.__module__ == conn.__name__]
    monkeypatch.setattr(conn, "AIOKafkaConnection", own)
    host, _, port = embedded.settings.bootstrap_servers.partition(":")

    async def written() -> None:
        connection: Any = await conn.create_conn(host, int(port))
        # The turn of the event loop in which the transport is closed and the task that reads does
        # not know yet.
        connection._read_task.cancel()
        connection._writer.transport.abort()
        await asyncio.sleep(0.1)
        await connection.send(MetadataRequest([]))

    with pytest.raises(RuntimeError, match="closed") as raised:
        event_loop.run(written())
    assert not isinstance(raised.value, KafkaConnectionError)
    patience.mend_connections()
    with pytest.raises(KafkaConnectionError, match="broken"):
        event_loop.run(written())
