"""Samples from `metrics.k8s.io`, marshalled by upstream's types."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

import pytest
from aiohttp import web

from connectors.kubernetes.sources.directory import Directory
from connectors.kubernetes.sources.health import SourceFailed
from connectors.kubernetes.sources.metrics_api import MetricsApi, MetricsApiSettings
from tests.connectors.kubernetes.sources.builders import document
from tests.connectors.kubernetes.sources.harness import (
    api_server,
    context,
    directory_of,
    playing,
    read_all,
    set_pods,
)
from tests.connectors.ports.usage_source_contract import UsageSourceContract, UsageSourceWorld

#: 2026-03-01T12:00:00Z, the time of the figures in the documents.
AT_MS = 1_772_366_400_000


class _MetricsServer:
    """Returns these two lists."""

    def __init__(self) -> None:
        self.nodes, self.pods = document("node_metrics"), document("pod_metrics")
        self.status = 200

    async def __call__(self, request: web.Request) -> web.Response:
        if self.status != 200:
            message = "the server could not find the requested resource"
            return web.json_response({"kind": "Status", "message": message}, status=self.status)
        prefix, _, kind = request.path.rpartition("/")
        assert prefix == "/apis/metrics.k8s.io/v1beta1"
        return web.json_response({"nodes": self.nodes, "pods": self.pods}[kind])


@asynccontextmanager
async def _source(server: _MetricsServer, directory: Directory) -> AsyncIterator[MetricsApi]:
    async with playing(server) as url, api_server(url) as api:
        yield MetricsApi(MetricsApiSettings(source="metrics_api"), context(api, directory))


async def test_lists_of_upstream_are_converted_to_samples() -> None:
    directory = directory_of({"node-1": {"web-0": "uid-1", "unmeasured": "uid-2"}})
    async with _source(_MetricsServer(), directory) as source:
        (sample,) = await read_all(source)
        assert (sample.sampled_at_ms, sample.interval_ms) == (AT_MS, 20_064)
        assert sample.usage == {"cpu": 330, "memory": 2748180 * 1024}
        (pod,) = sample.pods
        assert (pod.name, pod.uid) == ("web-0", "uid-1")
        assert pod.usage == {"cpu": 102, "memory": 65 << 20}  # 100m and 1234567n, rounded up once
        assert await read_all(source) == []  # no new measurement


async def test_a_pod_does_not_inherit_the_figures_of_another_pod_with_its_name() -> None:
    directory = directory_of({"node-1": {"web-0": "old"}})
    # The window began 17 s before the node's time; this pod is younger.
    set_pods(directory, "node-1", {"web-0": "new"}, created_at_ms=AT_MS - 16_000)
    async with _source(_MetricsServer(), directory) as source:
        (sample,) = await read_all(source)
    assert sample.pods == ()


async def test_an_unreadable_entry_does_not_affect_other_entries() -> None:
    server = _MetricsServer()
    server.nodes["items"].insert(
        0, {"metadata": {"name": "bad"}, "timestamp": "never", "usage": {}}
    )
    server.pods["items"][0]["containers"][0]["usage"]["cpu"] = "many"
    directory = directory_of({"bad": {}, "node-1": {"web-0": "uid-1"}})
    async with _source(server, directory) as source:
        assert [sample.node for sample in await read_all(source)] == ["node-1"]
        report = source.health.report()
    (bad, good) = report.nodes
    assert bad.failure is not None
    assert bad.failure.cause == "unreadable"
    assert good.failure is None
    assert "shop/web-0" in report.notes[0]


async def test_a_node_missing_from_the_list_is_a_failure_of_that_node() -> None:
    """metrics-server omits a node if it cannot read the kubelet."""
    async with _source(_MetricsServer(), directory_of({"node-1": {}, "lost": {}})) as source:
        assert [sample.node for sample in await read_all(source)] == ["node-1"]
        lost, present = source.health.report().nodes
    assert present.failure is None
    assert lost.failure is not None
    assert (lost.node, lost.failure.cause) == ("lost", "incomplete")


async def test_an_entry_without_figures_does_not_affect_other_entries() -> None:
    """Upstream's types write an empty list of resources as null."""
    server = _MetricsServer()
    (whole,) = server.nodes["items"]
    empty = {**whole, "metadata": {"name": "empty"}, "usage": None}
    server.nodes["items"].insert(0, empty)
    server.pods["items"][0]["containers"][0]["usage"] = None
    directory = directory_of({"empty": {}, "node-1": {"web-0": "uid-1"}})
    async with _source(server, directory) as source:
        empty_one, sample = await read_all(source)
    assert (empty_one.node, empty_one.usage) == ("empty", {})
    assert (sample.node, sample.usage) == ("node-1", {"cpu": 330, "memory": 2748180 * 1024})
    assert sample.pods == (), "missing is not zero"


@pytest.mark.parametrize(
    ("status", "cause"), [(404, "not_installed"), (403, "forbidden"), (503, "server_error")]
)
async def test_a_missing_api_is_a_failure(status: int, cause: str) -> None:
    server = _MetricsServer()
    server.status = status
    async with _source(server, directory_of({"node-1": {}})) as source:
        with pytest.raises(SourceFailed) as failed:
            await read_all(source)
    assert failed.value.cause == cause


async def test_a_list_without_nodes_is_a_failure_and_no_empty_cluster() -> None:
    server = _MetricsServer()
    server.nodes["items"] = None
    async with _source(server, directory_of({"node-1": {}})) as source:
        with pytest.raises(SourceFailed, match="lists no node"):
            await read_all(source)


class _World(UsageSourceWorld):
    cluster, nodes = "c", ("n1", "n2")

    def __init__(self, source: MetricsApi, server: _MetricsServer) -> None:
        self.source, self.server, self.at_ms = source, server, AT_MS

    async def pass_time(self) -> None:
        self.at_ms += 15_000
        (example,) = document("node_metrics")["items"]
        at = datetime.fromtimestamp(self.at_ms / 1_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        items: list[Any] = [
            {**example, "metadata": {"name": name}, "timestamp": at} for name in self.nodes
        ]
        self.server.nodes["items"] = items


class TestMetricsApi(UsageSourceContract):
    @pytest.fixture
    async def world(self) -> AsyncIterator[UsageSourceWorld]:
        server = _MetricsServer()
        async with _source(server, directory_of({"n1": {}, "n2": {}})) as source:
            yield _World(source, server)
