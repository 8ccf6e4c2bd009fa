"""Samples from a fake and a real Prometheus."""

import asyncio
import socket
import subprocess
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web

from connectors.kubernetes.sources.directory import Directory
from connectors.kubernetes.sources.health import Cause, SourceFailed
from connectors.kubernetes.sources.prometheus import Prometheus, PrometheusSettings
from connectors.process.local_ports import find_free_port
from connectors.process.wall_clock import now_ms
from schemas.messages.usage import NodeUsage
from schemas.policy.validation import build_model
from tests.connectors.kubernetes.sources.debian import prometheus
from tests.connectors.kubernetes.sources.harness import (
    api_server,
    at_work,
    context,
    directory_of,
    playing,
    read_all,
    set_pods,
)
from tests.connectors.ports.usage_source_contract import UsageSourceContract, UsageSourceWorld

Series = list[tuple[dict[str, str], float | str]]


def _settings(**fields: object) -> PrometheusSettings:
    return build_model(PrometheusSettings, {"source": "prometheus", **fields})


class Played:
    """Returns series for each query in the format of Prometheus' HTTP API."""

    def __init__(self, **series: Series) -> None:
        self.series = series
        self.asked: list[tuple[str, str]] = []
        self.more: dict[str, Any] = {}

    async def __call__(self, request: web.Request) -> web.Response:
        form = await request.post()
        query = str(form["query"])
        self.asked.append((request.path, query))
        result = [
            {"metric": labels, "value": [float(str(form["time"])), str(value)]}
            for labels, value in self.series.get(query, [])
        ]
        data = {"resultType": "vector", "result": result}
        return web.json_response({"status": "success", "data": data, **self.more})


@asynccontextmanager
async def _source(
    server: Callable[[web.Request], Any],
    directory: Directory,
    clock: Callable[[], int] = now_ms,
    **settings: object,
) -> AsyncIterator[Prometheus]:
    async with playing(server) as url, api_server("http://nowhere.invalid") as api:
        source = Prometheus(_settings(url=url, **settings), context(api, directory, clock))
        async with at_work(source):
            yield source


_NODES = {"cpu": "cpu", "memory": "memory"}


async def test_values_are_assigned_to_nodes_and_pods_by_labels() -> None:
    server = Played(
        cpu=[({"instance": "n1"}, 1.5), ({"instance": "10.0.0.1:9100"}, 0.25), ({"instance": "x"}, 9)],
        memory=[({"instance": "n1:9100"}, 4096.4), ({"instance": "10.0.0.1"}, 1)],
        gpu=[({"instance": "n2", "namespace": "shop", "pod": "a"}, 2)],
        pods=[({"instance": "n1", "namespace": "shop", "pod": "a"}, 0.5),
              ({"instance": "n1", "namespace": "shop", "pod": "unknown"}, 0.5)],
    )  # fmt: skip
    directory = directory_of({"n1": {"a": "uid-1"}, "n2": {"a": "uid-2"}})
    async with _source(
        server, directory, nodes=_NODES, pods={"cpu": "pods", "nvidia.com/gpu": "gpu"}
    ) as source:
        n1, n2 = await read_all(source)
    assert (n1.node, n1.usage) == ("n1", {"cpu": 1_500, "memory": 4_096})
    assert (n2.node, n2.usage) == ("n2", {"cpu": 250, "memory": 1})
    assert [(pod.uid, pod.usage) for pod in n1.pods] == [("uid-1", {"cpu": 500})]
    assert [(pod.uid, pod.usage) for pod in n2.pods] == [("uid-2", {"nvidia.com/gpu": 2})]
    assert source.health.counts["of_no_node"] == 1
    assert {path for path, _ in server.asked} == {"/api/v1/query"}


async def test_a_node_missing_from_one_query_keeps_the_other_resources_and_is_reported() -> None:
    server = Played(cpu=[({"instance": "n1"}, 1), ({"instance": "n2"}, "NaN")],
                     memory=[({"instance": "n1"}, 1), ({"instance": "n2"}, 1)])  # fmt: skip
    async with _source(
        server, directory_of({"n1": {}, "n2": {}, "n3": {}}), nodes=_NODES
    ) as source:
        usage = {sample.node: sample.usage for sample in await read_all(source)}
        assert usage == {"n1": {"cpu": 1000, "memory": 1}, "n2": {"memory": 1}}
        failures = {node.node: node.failure for node in source.health.report().nodes}
    assert failures["n1"] is None
    assert failures["n2"] is not None
    assert failures["n2"].why == "no query returned its cpu"
    assert failures["n3"] is not None
    assert failures["n3"].why == "no query returned this node"


async def test_a_node_without_a_gpu_has_samples_without_one() -> None:
    nodes: Series = [({"instance": "n1"}, 1), ({"instance": "n2"}, 1)]
    server = Played(cpu=nodes, memory=nodes, gpu=[({"instance": "n1"}, 4)])
    async with _source(
        server, directory_of({"n1": {}, "n2": {}}), nodes={**_NODES, "nvidia.com/gpu": "gpu"}
    ) as source:
        n1, n2 = await read_all(source)
        failures = [node.failure for node in source.health.report().nodes]
    assert n1.usage == {"cpu": 1_000, "memory": 1, "nvidia.com/gpu": 4}
    assert n2.usage == {"cpu": 1_000, "memory": 1}
    assert failures == [None, None]


async def test_scrape_times_of_a_query_are_used() -> None:
    at_s = now_ms() // 1_000 - 40
    server = Played(cpu=[({"instance": "n1"}, 1)], memory=[({"instance": "n1"}, 1)],
                     times=[({"instance": "n1"}, at_s)])  # fmt: skip
    async with _source(
        server, directory_of({"n1": {}}), nodes=_NODES, nodeTimes="times", window="1m"
    ) as source:
        (sample,) = await read_all(source)
        assert (sample.sampled_at_ms, sample.interval_ms) == (at_s * 1_000, 60_000)
        assert await read_all(source) == []  # a rate continues without scrapes
        server.series["times"] = []
        assert await read_all(source) == []
        (node,) = source.health.report().nodes
    assert node.failure is not None


async def test_a_pod_younger_than_the_window_is_left_out() -> None:
    server = Played(cpu=[({"instance": "n1"}, 1)], memory=[({"instance": "n1"}, 1)],
                     pods=[({"instance": "n1", "namespace": "shop", "pod": "a"}, 0.5)])  # fmt: skip
    directory = directory_of({"n1": {}})
    set_pods(directory, "n1", {"a": "new"}, created_at_ms=now_ms() - 30_000)
    async with _source(
        server, directory, nodes=_NODES, pods={"cpu": "pods"}, window="1m"
    ) as source:
        (sample,) = await read_all(source)
    assert sample.pods == ()


async def test_a_partial_answer_counts_as_none() -> None:
    server = Played(cpu=[({"instance": "n1"}, 1)], memory=[({"instance": "n1"}, 1)])
    server.more = {"warnings": ["a store could not be asked"]}
    async with _source(server, directory_of({"n1": {}}), nodes=_NODES) as source:
        with pytest.raises(SourceFailed, match="a partial answer: a store could not") as failed:
            await read_all(source)
        assert failed.value.cause == "incomplete"
        server.more = {"warnings": ["PromQL warning: not a counter"], "infos": ["PromQL info: x"]}
        assert len(await read_all(source)) == 1


@pytest.mark.parametrize(
    ("status", "body", "cause"),
    [
        (400, b'{"status":"error","errorType":"bad_data","error":"parse error"}', "refused"),
        (200, b'{"status":"error","error":"query timed out"}', "refused"),
        (200, b'{"status":"success","data":{"resultType":"matrix","result":[]}}', "refused"),
        (200, b'{"status":"success","data":{}}', "unreadable"),
        (200, b"[1]", "unreadable"),
        (200, b"<html>", "unreadable"),
        (401, b"who?", "credentials"),
        (503, b"starting", "server_error"),
    ],
)
async def test_an_invalid_answer_is_a_failure(status: int, body: bytes, cause: str) -> None:
    async def server(request: web.Request) -> web.Response:
        return web.Response(status=status, body=body)

    async with _source(server, directory_of({"n1": {}}), nodes=_NODES) as source:
        with pytest.raises(SourceFailed) as failed:
            await read_all(source)
    assert failed.value.cause == cause


async def test_a_server_that_does_not_answer_is_a_failure() -> None:
    async def server(request: web.Request) -> web.Response:
        await asyncio.sleep(30)
        return web.Response()

    async with _source(server, directory_of({"n1": {}}), nodes=_NODES, timeout="100ms") as source:
        with pytest.raises(SourceFailed, match=r"no answer within 0\.1 s") as failed:
            await read_all(source)
    assert failed.value.cause == "timeout"


@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "127.0.0.1:{port}/prom", "host:port"])
async def test_no_failure_contains_the_password_of_the_url(address: str) -> None:
    url = f"http://reader:hush@{address.format(port=find_free_port())}"
    async with api_server("http://nowhere.invalid") as api:
        settings = _settings(url=url, nodes=_NODES)
        source = Prometheus(settings, context(api, directory_of({"n1": {}})))
        async with at_work(source):
            with pytest.raises(SourceFailed, match=address.partition(":")[0]) as failed:
                await read_all(source)
    assert "hush" not in str(failed.value)


def test_queries_of_settings_and_presets_are_merged() -> None:
    settings = _settings(
        url="http://x", presets=["nodeExporter", "cadvisor"], window="5m", nodeLabel="node",
        nodes={"cpu": 'mine{a="{node}"}', "nvidia.com/gpu": "gpus"},
    )  # fmt: skip
    queries = settings.queries()
    assert queries.nodes["cpu"] == 'mine{a="node"}'
    assert queries.nodes["nvidia.com/gpu"] == "gpus"
    assert "[300000ms]" in queries.pods["cpu"]
    assert "by (node, namespace, pod)" in queries.pods["cpu"]
    assert not any(
        placeholder in text
        for text in (*queries.nodes.values(), *queries.pods.values(), queries.node_times or "")
        for placeholder in ("{window}", "{node}", "{pod}", "{namespace}")
    )


class _World(UsageSourceWorld):
    cluster, nodes = "c", ("n1", "n2")

    def __init__(self, source: Prometheus, at_ms: list[int]) -> None:
        self.source, self.at_ms = source, at_ms

    async def pass_time(self) -> None:
        self.at_ms[0] += 15_000


class TestPrometheus(UsageSourceContract):
    @pytest.fixture
    async def world(self) -> AsyncIterator[UsageSourceWorld]:
        series: Series = [({"instance": "n1"}, 1), ({"instance": "n2"}, 2)]
        directory, at_ms = directory_of({"n1": {}, "n2": {}}), [now_ms()]
        server = Played(cpu=series, memory=series)
        async with _source(server, directory, lambda: at_ms[0], nodes=_NODES) as source:
            yield _World(source, at_ms)


class _Exporters:
    """Two nodes, as node_exporter and a kubelet's cAdvisor export them, with the lines that mislead:
    the pod's own cgroup, the pause container, and the kubelet's other metrics of the same name."""

    def __init__(self) -> None:
        self.began_s = time.monotonic()
        self.gone: set[str] = set()

    async def __call__(self, request: web.Request) -> web.Response:
        node, _, kind = request.path.strip("/").partition("/")
        if node in self.gone:
            return web.Response(status=503)
        passed_s = time.monotonic() - self.began_s
        lines = {"machine": self._machine, "cadvisor": self._cadvisor, "resource": self._resource}
        return web.Response(body="".join(lines[kind](passed_s)), content_type="text/plain")

    @staticmethod
    def _machine(passed_s: float) -> list[str]:
        modes = {"user": 1.5, "system": 0.5, "idle": 9.0, "iowait": 3.0, "steal": 2.0}
        lines = [
            f'node_cpu_seconds_total{{cpu="{cpu}",mode="{mode}"}} {500 + rate / 2 * passed_s}\n'
            for cpu in range(2)
            for mode, rate in modes.items()
        ]
        return [
            *lines,
            "node_memory_MemTotal_bytes 8192\n",
            "node_memory_MemAvailable_bytes 2048\n",
        ]

    @staticmethod
    def _cadvisor(passed_s: float) -> list[str]:
        of_pod = 'namespace="shop",pod="a"'
        cgroups = {
            'id="/",container="",namespace="",pod=""': (2.0, 6144),
            f'id="/kubepods/1",container="",{of_pod}': (1.0, 999),
            f'id="/kubepods/1/p",container="POD",{of_pod}': (1.0, 999),
            f'id="/kubepods/1/a",container="app",image="i",{of_pod}': (0.5, 100),
            f'id="/kubepods/1/b",container="proxy",image="i",{of_pod}': (0.25, 11),
        }
        return [
            line
            for labels, (rate, memory) in cgroups.items()
            for line in (
                f"container_cpu_usage_seconds_total{{{labels}}} {100 + rate * passed_s}\n",
                f"container_memory_working_set_bytes{{{labels}}} {memory}\n",
            )
        ]

    @staticmethod
    def _resource(passed_s: float) -> list[str]:
        labels = 'container="app",namespace="shop",pod="a"'
        return [
            f"container_cpu_usage_seconds_total{{{labels}}} {100 + 50 * passed_s}\n",
            f"container_memory_working_set_bytes{{{labels}}} 77777\n",
        ]


def _configuration(target: str) -> str:
    """Two nodes, each scraped by three jobs, and node_exporter by a fourth job again."""
    jobs = ""
    for job, kind in (
        ("node", "machine"),
        ("again", "machine"),
        ("kubelet", "cadvisor"),
        ("kubelet-resource", "resource"),
    ):
        for node in ("n1", "n2"):
            jobs += (
                f"  - job_name: {job}-{node}\n    metrics_path: /{node}/{kind}\n    static_configs:\n"
                f"      - targets: ['{target}']\n        labels: {{instance: '{node}:9100'}}\n"
            )
    return f"global: {{scrape_interval: 250ms, scrape_timeout: 200ms}}\nscrape_configs:\n{jobs}"


@asynccontextmanager
async def _real_prometheus(target: str, folder: Path) -> AsyncIterator[str]:
    """Run a server that scrapes the target; returns its URL."""
    binary = prometheus()
    (folder / "prometheus.yml").write_text(_configuration(target))
    for _ in range(5):  # another process may use the port in the meantime
        port = _free_port()
        with (folder / "log").open("w") as log:
            server = subprocess.Popen(  # noqa: S603 - the binary is Debian's
                [binary, f"--config.file={folder}/prometheus.yml", f"--storage.tsdb.path={folder}/data",
                 f"--web.listen-address=127.0.0.1:{port}"],
                stdout=log, stderr=log,
            )  # fmt: skip
        try:
            if await _ready(server, f"http://127.0.0.1:{port}"):
                yield f"http://127.0.0.1:{port}"
                return
        finally:
            server.terminate()
            await asyncio.to_thread(server.wait)
    pytest.fail((folder / "log").read_text()[-2_000:])


def _free_port() -> int:
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        return int(listening.getsockname()[1])


async def _ready(server: "subprocess.Popen[bytes]", url: str) -> bool:
    async with aiohttp.ClientSession() as session:
        while server.poll() is None:
            with suppress(aiohttp.ClientError):
                async with session.get(f"{url}/-/ready") as answer:
                    if answer.status == 200:
                        return True
            await asyncio.sleep(0.05)
    return False


@pytest.mark.slow
async def test_a_real_prometheus_gives_the_figures_of_both_presets_once(tmp_path: Path) -> None:
    exporters = _Exporters()
    directory = directory_of({"n1": {"a": "uid-1"}, "n2": {}})
    async with (
        playing(exporters) as target,
        _real_prometheus(target.removeprefix("http://"), tmp_path) as url,
        api_server("http://nowhere.invalid") as api,
    ):
        figures: dict[str, dict[str, NodeUsage]] = {}
        at_ms = [now_ms()]
        for preset in ("nodeExporter", "cadvisor"):
            preset_settings = _settings(url=url, presets=[preset], window="2s")
            source = Prometheus(preset_settings, context(api, directory, lambda: at_ms[0]))
            async with asyncio.timeout(60), at_work(source):
                figures[preset] = await _figures_of_a_window(source, at_ms)
                if preset == "cadvisor":
                    await _until_silent(source, at_ms, exporters)
    for samples in figures.values():
        for sample in samples.values():
            # Counted twice it would be 4,000. On a busy machine a scrape may be late by a part of 2 s.
            assert sample.usage["cpu"] == pytest.approx(2_000, rel=0.3)
            assert sample.usage["memory"] == 6_144
            assert sample.interval_ms == 2_000
    (pod,) = figures["cadvisor"]["n1"].pods
    assert pod.usage["cpu"] == pytest.approx(750, rel=0.3)
    assert pod.usage["memory"] == 111


async def _figures_of_a_window(source: Prometheus, at_ms: list[int]) -> dict[str, NodeUsage]:
    """Return figures by node once each target was scraped for a whole window.

    Prometheus starts to scrape targets some seconds after its start, at different times. A target whose last
    scrape has failed has no figures.
    """
    scrapes: list[float] = []
    figures: dict[str, NodeUsage] = {}
    while len(scrapes) < 8 or min(scrapes) < 6 or len(figures) < 2:
        await asyncio.sleep(0.3)
        at_ms[0] = now_ms()
        scrapes = [value for _, value in await source.query("sum_over_time(up[2s])", at_ms[0])]
        figures = {sample.node: sample for sample in await read_all(source)}
    return figures


async def _until_silent(source: Prometheus, at_ms: list[int], exporters: _Exporters) -> None:
    """Wait until a node without an exporter has no more samples, though its rates continue for a while.

    Missing samples between two scrapes are no failure.
    """
    exporters.gone.add("n2")
    causes: dict[str, Cause | None] = {}
    while causes != {"n1": None, "n2": "incomplete"}:
        await asyncio.sleep(0.3)
        at_ms[0] = now_ms()
        nodes = {sample.node for sample in await read_all(source)}
        causes = {
            node.node: node.failure.cause if node.failure else None
            for node in source.health.report().nodes
        }
    assert "n2" not in nodes
