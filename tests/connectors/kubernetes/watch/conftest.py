"""A fake API server and a watch of it."""

from collections.abc import AsyncIterator

import pytest

from connectors.kubernetes.api import list_watch
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.watch.kinds import PODS
from connectors.kubernetes.watch.state_watch import KubernetesWatch
from tests.connectors.kubernetes.watch.documents import OTHERS, node, pod
from tests.connectors.kubernetes.watch.fake_api import FakeApi, Served


@pytest.fixture(autouse=True)
def short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    """Retry failures at once."""
    monkeypatch.setattr(list_watch, "PAUSE_FIRST_S", 0.01)
    monkeypatch.setattr(list_watch, "PAUSE_MAX_S", 0.1)


@pytest.fixture
async def api() -> FakeApi:
    """Two nodes, three pods, and one object of every other kind."""
    api = FakeApi()
    for name in ("node-1", "node-2"):
        api.put("/api/v1/nodes", node(name))
    for path, document in OTHERS.items():
        api.put(path, document)
    running = (("spec/nodeName", "node-1"), ("status/phase", "Running"))
    api.put(PODS, pod("running", *running))
    api.put(PODS, pod("theirs", ("spec/schedulerName", "default-scheduler"), *running))
    api.put(PODS, pod("waiting"))
    return api


@pytest.fixture
async def served(api: FakeApi) -> AsyncIterator[Served]:
    """The server with an open port."""
    served = Served(api)
    await served.start()
    yield served
    await served.stop()


@pytest.fixture
async def server(served: Served) -> AsyncIterator[ApiServer]:
    """A client of the server."""
    async with ApiServer(served.access) as server:
        yield server


@pytest.fixture
async def watch(server: ApiServer) -> AsyncIterator[KubernetesWatch]:
    """A watch that has not started."""
    watch = KubernetesWatch("east", server, now_ms=lambda: 1_793_181_600_000)
    yield watch
    await watch.close()
