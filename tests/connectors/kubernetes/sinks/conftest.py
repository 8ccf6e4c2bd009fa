"""What tests of sinks share."""

from collections.abc import AsyncIterator

import pytest

from connectors.kubernetes.api.server import ApiServer
from tests.connectors.kubernetes.sinks.played import Played


@pytest.fixture
def played() -> Played:
    """A server that plays an API server."""
    return Played()


@pytest.fixture
async def client(played: Played) -> AsyncIterator[ApiServer]:
    """A client of it."""
    async with played.served() as client:
        yield client
