"""List and watch of a real API server through restarts and errors."""

import asyncio
import random
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from connectors.kubernetes.api import list_watch
from connectors.kubernetes.api.list_watch import (
    Absent,
    Begun,
    Deleted,
    Ended,
    Event,
    ListWatch,
)
from connectors.kubernetes.api.list_watch import Present as Listed
from connectors.kubernetes.api.server import ApiServer
from simulation.control_plane import cluster
from simulation.control_plane.server import ControlPlane
from tests.connectors.kubernetes.sinks.fake_server import Answer, FakeServer, failure


class Reader:
    """Folds events to the version of each object, by uid."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.known: dict[str, str] = {}
        self.names: dict[str, str] = {}
        self.seen: list[tuple[str, str, str]] = []
        """Changes as (kind, uid, version): each comes once."""
        self._listed: dict[str, str] = {}

    def read(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event, Begun):
            self._listed = {}
        elif isinstance(event, Ended):
            self.known = dict(self._listed)
        elif isinstance(event, Listed):
            meta = event.object["metadata"]
            self._listed[meta["uid"]] = meta["resourceVersion"]
            self.names[meta["uid"]] = meta["name"]
        else:
            assert not isinstance(event, Absent), event.why
            meta = event.object["metadata"]
            self.names[meta["uid"]] = meta["name"]
            self.seen.append((type(event).__name__, meta["uid"], meta["resourceVersion"]))
            if isinstance(event, Deleted):
                self.known.pop(meta["uid"], None)
            else:
                self.known[meta["uid"]] = meta["resourceVersion"]

    def present(self) -> set[str]:
        """Names of the present objects."""
        return {self.names[uid] for uid in self.known}


@asynccontextmanager
async def _follow(watch: ListWatch) -> AsyncIterator[Reader]:
    """Read the events while the block runs."""
    reader = Reader()

    async def follow() -> None:
        async for event in watch.events():
            reader.read(event)

    task = asyncio.create_task(follow())
    try:
        yield reader
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _until(holds: Callable[[], bool], timeout_s: float = 60.0) -> None:
    async with asyncio.timeout(timeout_s):
        while not holds():
            await asyncio.sleep(0.02)


async def _versions(server: ApiServer, path: str) -> dict[str, str]:
    """Return the version of each object on the server."""
    items = (await server.get(path))["items"]
    return {item["metadata"]["uid"]: item["metadata"]["resourceVersion"] for item in items}


def _pods(namespace: str) -> str:
    return f"/api/v1/namespaces/{namespace}/pods"


async def test_restarted_watches_lose_and_repeat_nothing(
    control_plane: ControlPlane, namespace: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(list_watch, "WATCH_S", 11)  # the server shortens a watch by up to 10 s
    monkeypatch.setattr(random, "randrange", lambda most: most)
    path = f"/api/v1/namespaces/{namespace}/configmaps"
    written: set[tuple[str, str, str]] = set()
    async with control_plane.api() as server:
        watch = ListWatch(server, path)
        async with _follow(watch) as reader:
            await _until(lambda: watch.lists == 1)
            for number in range(60):  # for three seconds, in which watches of one second end
                name = f"c{number}"
                (created,) = await cluster.create(server, path, [{"metadata": {"name": name}}])
                uid = created["metadata"]["uid"]
                written.add(("Changed", uid, created["metadata"]["resourceVersion"]))
                if number % 3 == 0:
                    await server.send("DELETE", f"{path}/{name}")
                await asyncio.sleep(0.05)
            versions = await _versions(server, path)
            await _until(lambda: reader.known == versions)
    assert watch.lists == 1
    assert len(reader.seen) == len(set(reader.seen)) == 80
    assert {event for event in reader.seen if event[0] == "Changed"} == written


@pytest.mark.parametrize("end", ["stop", "kill"])
async def test_a_restart_of_the_server_loses_and_adds_nothing(
    control_plane: ControlPlane, namespace: str, end: str
) -> None:
    path = _pods(namespace)
    async with control_plane.api() as server:
        watch = ListWatch(server, path, page_objects=7)
        async with _follow(watch) as reader:
            for number in range(3):
                names = [f"p{number}-{index}" for index in range(10)]
                await cluster.create_pods(server, namespace, [cluster.make_pod(n) for n in names])
                await asyncio.to_thread(getattr(control_plane.api_server, end))
                await _until(lambda: watch.failing_since_s is not None)
                assert watch.why
                await asyncio.to_thread(control_plane.api_server.start)
                query = {"gracePeriodSeconds": "0"}
                await server.send("DELETE", f"{path}/p{number}-0", query=query)
                versions = await _versions(server, path)
                await _until(lambda versions=versions: reader.known == versions)  # type: ignore[misc]
                assert watch.failing_since_s is None
    assert len(reader.known) == 27
    assert len(reader.seen) == len(set(reader.seen))


async def test_a_version_that_is_too_old_is_followed_by_a_list(
    control_plane: ControlPlane, namespace: str
) -> None:
    path = _pods(namespace)
    async with control_plane.api() as server:
        await cluster.create_pods(server, namespace, [cluster.make_pod("one")])
        await asyncio.to_thread(control_plane.compact)
        await asyncio.to_thread(control_plane.api_server.stop)
        await asyncio.to_thread(control_plane.api_server.start)
        watch = ListWatch(server, path)
        watch._version = "1"
        async with _follow(watch) as reader:
            await _until(lambda: reader.present() == {"one"})
            assert [type(event) for event in reader.events] == [Begun, Listed, Ended]
            await cluster.create_pods(server, namespace, [cluster.make_pod("two")])
            await _until(lambda: reader.present() == {"one", "two"})
        assert watch.lists == 1


async def test_a_version_that_the_server_has_not_reached_is_followed_by_a_list(
    control_plane: ControlPlane, namespace: str
) -> None:
    """After etcd was restored, the server would accept a watch from this version and send nothing."""
    path = _pods(namespace)
    async with control_plane.api() as server:
        await cluster.create_pods(server, namespace, [cluster.make_pod("one")])
        watch = ListWatch(server, path)
        version = (await server.get(path))["metadata"]["resourceVersion"]
        watch._version = str(int(version) + 100_000)
        async with _follow(watch) as reader:
            await _until(lambda: reader.present() == {"one"})
            await cluster.create_pods(server, namespace, [cluster.make_pod("two")])
            await _until(lambda: reader.present() == {"one", "two"})


async def test_retry_after_is_respected_up_to_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(list_watch, "PAUSE_MAX_S", 0.3)
    fake_server, path = FakeServer(), _pods("shop")
    listed = Answer(body={"metadata": {"resourceVersion": "7"}, "items": []})
    hour, again = (failure(503, "", "in maintenance", retry_after=s) for s in (3600, 1))
    fake_server.set_answers("GET", path, hour, again, listed)
    async with fake_server.serve() as server:
        watch = ListWatch(server, path)
        began_s = time.monotonic()
        async with _follow(watch):
            await _until(lambda: watch.lists == 1)
        assert time.monotonic() - began_s > 0.6, "both are longer than its own pauses at first"


async def test_a_throttled_page_is_requested_again_without_earlier_pages() -> None:
    """A busy server must not list a whole cluster again for one page of 300."""
    fake_server, path = FakeServer(), _pods("shop")

    def page(name: str, rest: str) -> Answer:
        meta = {"uid": name, "name": name, "resourceVersion": "3"}
        return Answer(
            body={"metadata": {"resourceVersion": "7", "continue": rest},
                  "items": [{"metadata": meta}]}
        )  # fmt: skip

    busy, gone = failure(429, "TooManyRequests", "busy", retry_after=1), failure(500, "", "etcd")
    fake_server.set_answers(
        "GET", path, page("a", "1"), busy, page("b", "2"), gone, gone, page("c", "")
    )
    async with fake_server.serve() as server:
        watch = ListWatch(server, path)
        async with _follow(watch) as reader:
            await _until(lambda: watch.lists == 1)
            assert reader.present() == {"a", "b", "c"}
    tokens = [
        call.query.get("continue", "") for call in fake_server.requests if "watch" not in call.query
    ]
    assert tokens[:6] == ["", "1", "1", "2", "2", "2"]
