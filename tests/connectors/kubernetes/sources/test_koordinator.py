"""Koordinator's objects, listed and watched."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import orjson
import pytest
from aiohttp import web

from connectors.kubernetes.api.errors import ApiError
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sources.health import SourceFailed
from connectors.kubernetes.sources.koordinator import NODE_METRICS, Koordinator, KoordinatorSettings
from schemas.messages.metrics import NodeMetric
from simulation.control_plane import cluster
from simulation.control_plane.server import ControlPlane
from tests.connectors.kubernetes.sources.builders import document
from tests.connectors.kubernetes.sources.harness import (
    api_server,
    at_work,
    context,
    directory_of,
    playing,
    read_all,
    until,
)
from tests.connectors.ports.usage_source_contract import UsageSourceContract, UsageSourceWorld


class _ApiServer:
    """Lists these objects and sends the content of `changes` as watch events."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Any]] = {}
        self.installed = True
        """NodeMetrics are installed."""
        self.version = 100
        self.changes: asyncio.Queue[bytes | None] = asyncio.Queue()

    def object(self, node: str, **spec: Any) -> dict[str, Any]:
        self.version += 1
        node_metric: dict[str, Any] = document("koordinator_node_metric")
        node_metric["metadata"] = {"name": node, "resourceVersion": str(self.version)}
        node_metric["spec"] = spec
        return node_metric

    def change(self, kind: str, node_metric: dict[str, Any]) -> None:
        self.changes.put_nowait(orjson.dumps({"type": kind, "object": node_metric}) + b"\n")

    async def __call__(self, request: web.Request) -> web.StreamResponse:
        if not self.installed:
            message = "the server could not find the requested resource"
            return web.json_response({"kind": "Status", "message": message}, status=404)
        if "watch" not in request.query:
            items = list(self.objects.values())
            listed = {"metadata": {"resourceVersion": str(self.version)}, "items": items}
            return web.json_response(listed)
        response = web.StreamResponse()
        await response.prepare(request)
        while (line := await self.changes.get()) is not None:
            await response.write(line)
        return response


@asynccontextmanager
async def _run(server: _ApiServer, *nodes: str) -> AsyncIterator[Koordinator]:
    async with playing(server) as url, api_server(url) as api:
        settings = KoordinatorSettings(source="koordinator")
        directory = directory_of({name: {} for name in nodes})
        source = Koordinator(settings, context(api, directory))
        async with at_work(source):
            yield source


async def _next(source: Koordinator, count: int = 1) -> list[NodeMetric]:
    metrics: list[NodeMetric] = []
    while len(metrics) < count:
        metrics += await read_all(source)
        await asyncio.sleep(0.01)
    return metrics


async def test_present_changed_and_removed_objects_are_reported() -> None:
    server = _ApiServer()
    server.objects = {"n1": server.object("n1"), "n2": server.object("n2")}
    async with _run(server, "n1", "n2") as source:
        assert {message.node for message in await _next(source, 2)} == {"n1", "n2"}
        server.change("MODIFIED", server.object("n1"))
        (changed,) = await _next(source)
        assert (changed.node, changed.removed) == ("n1", False)
        server.change("DELETED", server.object("n2"))
        (gone,) = await _next(source)
        assert (gone.node, gone.removed) == ("n2", True)


async def test_objects_missing_from_a_later_list_are_reported_as_removed() -> None:
    server = _ApiServer()
    server.objects = {"n1": server.object("n1"), "n2": server.object("n2")}
    async with _run(server, "n1", "n2") as source:
        await _next(source, 2)
        del server.objects["n2"]
        server.change("ERROR", {"kind": "Status", "code": 410, "message": "too old"})
        (gone,) = await _next(source)
        assert (gone.node, gone.removed) == ("n2", True)


async def test_a_missing_crd_is_reported_and_checked_again() -> None:
    server = _ApiServer()
    server.installed = False
    async with _run(server, "n1") as source:
        await until(lambda: source._metrics.failing_since_s is not None)
        with pytest.raises(SourceFailed, match="is not installed in this cluster") as failed:
            await _next(source)
        assert failed.value.cause == "not_installed"
        assert NODE_METRICS in str(failed.value)
        server.objects = {"n1": server.object("n1")}
        server.installed = True
        await until(lambda: source._metrics.lists)
        assert [message.node for message in await _next(source)] == ["n1"]


async def test_objects_that_can_no_longer_be_read_are_a_failure_after_a_while(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("connectors.kubernetes.sources.koordinator.FAILING_S", 0.3)
    server = _ApiServer()
    server.objects = {"n1": server.object("n1")}
    async with _run(server, "n1") as source:
        assert [message.node for message in await _next(source)] == ["n1"]
        server.installed = False
        server.changes.put_nowait(None)  # the watch ends
        await until(lambda: source._metrics.failing_since_s is not None)
        with pytest.raises(SourceFailed, match="is not installed in this cluster"):
            await _next(source)


async def test_an_object_that_cannot_be_read_is_a_failure_of_its_node() -> None:
    server = _ApiServer()
    bad = server.object("bad")
    bad["status"]["nodeMetric"]["nodeUsage"]["resources"]["cpu"] = "many"
    server.objects = {"bad": bad, "good": server.object("good")}
    async with _run(server, "bad", "good") as source:
        assert [message.node for message in await _next(source)] == ["good"]
        failures = {node.node: node.failure for node in source.health.report().nodes}
    assert failures["good"] is None
    assert failures["bad"] is not None
    assert "NodeMetric bad" in failures["bad"].why


@pytest.mark.parametrize("way", ["MODIFIED", "DELETED"])
async def test_a_metric_ahead_of_our_clock_is_reported_until_it_changes(way: str) -> None:
    server = _ApiServer()
    ahead, other = server.object("n1"), server.object("n2")
    ahead["status"]["updateTime"] = other["status"]["updateTime"] = "2099-01-01T00:00:00Z"
    server.objects = {"n1": ahead, "n2": other}
    async with _run(server, "n1", "n2") as source:
        await _next(source, 2)
        for ahead_nodes in (["n1", "n2"], ["n2"]):
            nodes = source.health.report().nodes
            assert [node.node for node in nodes if node.clock_skew_ms] == ahead_nodes
            server.change(way, server.object(ahead_nodes[0]))
            await _next(source)
        assert not any(node.clock_skew_ms for node in source.health.report().nodes)


class _World(UsageSourceWorld):
    source: Koordinator
    cluster, nodes = "c", ("n1", "n2")

    def __init__(self, source: Koordinator, server: _ApiServer) -> None:
        self.source, self.server, self.second = source, server, 0

    async def pass_time(self) -> None:
        self.second += 1
        for node in self.nodes:
            node_metric = self.server.object(node)
            node_metric["status"]["updateTime"] = f"2026-03-01T12:00:{self.second:02}Z"
            self.server.change("MODIFIED", node_metric)
        await until(lambda: len(self.source._newest._unread) == len(self.nodes))


class TestKoordinator(UsageSourceContract):
    @pytest.fixture
    async def world(self) -> AsyncIterator[UsageSourceWorld]:
        server = _ApiServer()
        async with _run(server, "n1", "n2") as source:
            yield _World(source, server)


_CRDS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
#: Names and scope of Koordinator's CRD; unread fields may have any value.
_CRD = {
    "metadata": {"name": "nodemetrics.slo.koordinator.sh"},
    "spec": {
        "group": "slo.koordinator.sh",
        "scope": "Cluster",
        "names": {"plural": "nodemetrics", "singular": "nodemetric", "kind": "NodeMetric"},
        "versions": [
            {
                "name": "v1alpha1",
                "served": True,
                "storage": True,
                "schema": {
                    "openAPIV3Schema": {
                        "type": "object",
                        "x-kubernetes-preserve-unknown-fields": True,
                    }
                },
            }
        ],
    },
}


async def _create_served(server: ApiServer, node_metric: dict[str, Any]) -> None:
    """Create an object whose CRD was created a moment ago."""
    while True:
        try:
            await cluster.create(server, NODE_METRICS, [node_metric])
        except ApiError as error:
            if error.status != 404:
                raise
            await asyncio.sleep(0.05)
        else:
            return


async def test_the_crd_can_be_installed_and_removed_on_a_real_server(
    control_plane: ControlPlane,
) -> None:
    """From a missing CRD to objects and their deletion, with the rights of the duty."""
    async with control_plane.api() as admin, control_plane.api("loadstream-collect") as server:
        settings = KoordinatorSettings(source="koordinator")
        source = Koordinator(settings, context(server, directory_of({"n1": {}, "n2": {}})))
        task = asyncio.create_task(source.run())
        try:
            await until(lambda: source._metrics.failing_since_s is not None)
            with pytest.raises(SourceFailed, match="not installed"):
                await _next(source)
            await cluster.create(admin, _CRDS, [_CRD])
            for node in ("n1", "n2"):
                node_metric = document("koordinator_node_metric")
                node_metric["metadata"] = {"name": node}
                node_metric["spec"] = {"metricCollectPolicy": {"reportIntervalSeconds": 45}}
                await _create_served(admin, node_metric)
            await until(lambda: source._metrics.lists, 60)
            messages = {message.node: message for message in await _next(source, 2)}
            assert messages["n1"].usage == {"cpu": 1_200, "memory": 4 * 2**30}
            assert messages["n1"].report_interval_ms == 45_000
            await cluster.delete_all(admin, f"{NODE_METRICS}/n2")
            (gone,) = await _next(source)
            assert (gone.node, gone.removed) == ("n2", True)
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
            await admin.send("DELETE", f"{_CRDS}/nodemetrics.slo.koordinator.sh")
