"""Fixtures for tests of sinks."""

from collections.abc import AsyncIterator

import pytest

from connectors.kubernetes.api.server import ApiServer
from tests.connectors.kubernetes.sinks.fake_server import FakeServer


@pytest.fixture
def fake_server() -> FakeServer:
    """A server that plays an API server."""
    return FakeServer()


@pytest.fixture
async def client(fake_server: FakeServer) -> AsyncIterator[ApiServer]:
    """A client of it."""
    async with fake_server.serve() as client:
        yield client
