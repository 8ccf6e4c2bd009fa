"""Start of a process with duties."""

import pytest
from aiokafka import conn
from kubernetes_asyncio.client import Configuration

from connectors.kubernetes.api.access import Access
from connectors.kubernetes.api.errors import AccessError
from connectors.kubernetes.duties.process import run
from connectors.kubernetes.duties.telemetry import DutyTelemetry
from connectors.process import event_loop
from schemas.settings.connection import KafkaSettings


def test_clients_tolerate_lost_connections_before_duties_start(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unmended = conn.AIOKafkaConnection
    monkeypatch.setattr(conn, "AIOKafkaConnection", unmended)

    async def load(configuration: Configuration) -> None:
        raise OSError("no credentials")

    work = run(KafkaSettings(), "c1", Access(load, "played"), [], DutyTelemetry("c1"))
    with pytest.raises(AccessError, match="no credentials"):
        event_loop.run(work)
    assert conn.AIOKafkaConnection is not unmended
