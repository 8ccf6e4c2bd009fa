"""Several sources of one cluster at once."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from typing import Any, ClassVar

import orjson
import pytest
from aiohttp import web

from connectors.kubernetes.sources.base import KubernetesSource, SourceContext
from connectors.kubernetes.sources.collector import QUEUE_MAX, Collector
from connectors.kubernetes.sources.directory import Directory, KnownNode
from connectors.kubernetes.sources.health import SourceFailed
from connectors.kubernetes.sources.registry import create_sources, list_settings_classes
from connectors.kubernetes.sources.settings import SourceSettings, read_sources
from connectors.process.wall_clock import now_ms
from schemas.messages.usage import NodeUsage, PodUsage
from tests.connectors.kubernetes.sources.builders import exposition, node_lines, pod_lines
from tests.connectors.kubernetes.sources.harness import (
    api_server,
    context,
    directory_of,
    playing,
    text,
    until,
)


class _Settings(SourceSettings):
    """Settings of the test source."""


class _Source(KubernetesSource[_Settings]):
    """Yields what a function returns."""

    name: ClassVar[str] = "test"
    needs_pods: ClassVar[bool] = False

    def __init__(
        self, setup: SourceContext, label: str, read_samples: Callable[[], list[NodeUsage]]
    ) -> None:
        settings = _Settings.model_validate({"source": "test", "name": label, "interval": "100ms"})
        super().__init__(settings, setup)
        self.found, self.reads, self.runs = read_samples, 0, 0

    async def run(self) -> None:
        self.runs += 1
        if self.runs == 1 and self.settings.name == "breaks":
            raise RuntimeError("it breaks")

    async def read(self) -> AsyncIterator[NodeUsage]:
        self.reads += 1
        for message in self.found():
            yield message


def _sample(node: str, at_ms: int) -> NodeUsage:
    return NodeUsage(cluster="c", node=node, sampled_at_ms=at_ms, usage={"cpu": 1, "memory": 1})


def _context(directory: Directory | None = None) -> SourceContext:
    return context(api_server("http://127.0.0.1:9"), directory or directory_of({"n1": {}}))


async def test_a_failing_source_is_reported_and_retried_without_affecting_others() -> None:
    setup = _context()

    def fails() -> list[NodeUsage]:
        raise SourceFailed("forbidden", "no rights")

    def breaks() -> list[NodeUsage]:
        raise RuntimeError("a mistake")

    good = _Source(setup, "good", lambda: [_sample("n1", now_ms())])
    bad, broken = _Source(setup, "bad", fails), _Source(setup, "breaks", breaks)
    async with setup.server, Collector(setup, [bad, broken, good]) as collector:
        messages = collector.messages()
        for _ in range(3):
            topic, message = await anext(messages)
            assert (topic, message.node) == ("node-usage", "n1")
        await until(lambda: bad.reads >= 3 and broken.reads >= 3)
        reports = {report.source: report for report in collector.reports()}
    assert reports["bad"].failure is not None
    assert reports["bad"].failure.cause == "forbidden"
    assert reports["breaks"].failures["unreadable"] >= 3
    assert reports["good"].failure is None


async def test_each_message_names_the_source_of_its_node() -> None:
    setup = _context(directory_of({"n1": {}, "n2": {}}))
    first = _Source(setup, "first", lambda: [_sample("n1", now_ms())])
    second = _Source(setup, "second", lambda: [_sample(name, now_ms()) for name in ("n1", "n2")])
    sources: dict[str, str | None] = {}
    async with setup.server, Collector(setup, [first, second]) as collector:
        async for _, message in collector.messages():
            sources[message.node] = message.source
            if len(sources) == 2 and second.reads > 2:
                break
    assert sources == {"n1": "first", "n2": "second"}


async def test_samples_carry_capacity_and_impossible_ones_are_rejected() -> None:
    setup = _context()
    labels = {"loadstream.io/pool": "batch"}
    setup.directory.set_nodes(
        [KnownNode("n1", {}, 10250, labels, {"cpu": 8_000, "memory": 0, "pods": 110}, 7_000)]
    )
    used = iter(((154_000, 1), (8_401, 1), (100, 0), (8_400, 1)))

    def read_samples() -> list[NodeUsage]:
        cpu, memory = next(used, (100, 1))
        pods = (
            PodUsage(namespace="a", name="fine", uid="fine", usage={"cpu": 50}),
            PodUsage(namespace="a", name="wrong", uid="wrong", usage={"cpu": 9_000}),
        )
        sample = _sample("n1", now_ms())
        return [sample.model_copy(update={"usage": {"cpu": cpu, "memory": memory}, "pods": pods})]

    source = _Source(setup, "first", read_samples)
    async with setup.server, Collector(setup, [source]) as collector:
        _, message = await anext(collector.messages())
        (report,) = collector.reports()
    assert isinstance(message, NodeUsage)
    assert message.usage["cpu"] == 8_400
    assert [pod.name for pod in message.pods] == ["fine"]
    assert (message.capacity, message.node_created_at_ms) == ({"cpu": 8_000}, 7_000)
    assert message.pool == "batch"
    assert report.failures == {"impossible": 3}
    assert report.counts["pods_impossible"] == 1


@pytest.mark.parametrize("source", ["kubelet_resource", "metrics_api"])
async def test_a_source_reports_why_it_knows_no_nodes(source: str) -> None:
    """Without rights for nodes or pods a source would measure nothing and look healthy."""

    async def refuse(request: web.Request) -> web.Response:
        message = f"{request.path.rpartition('/')[2]} is forbidden"
        body = {"kind": "Status", "code": 403, "reason": "Forbidden", "message": message}
        return web.json_response(body, status=403)

    settings = read_sources(
        f"sources: [{{source: {source}, interval: 200ms}}]", list_settings_classes()
    )
    async with playing(refuse) as url, api_server(url) as api:
        setup = context(api, Directory())
        began_s = time.monotonic()
        async with Collector(setup, create_sources(settings, setup)) as collector:
            await until(lambda: collector.reports()[0].failure is not None)
            await until(lambda: "Forbidden" in str(collector.reports()[0].failure))
            await asyncio.sleep(0.5)
            (report,) = collector.reports()
            intervals = (time.monotonic() - began_s) / 0.2
    assert report.failure is not None
    assert report.failure.cause == "incomplete"
    assert "have not been listed yet: 403 Forbidden: nodes is forbidden" in report.failure.why
    assert report.failures["incomplete"] <= intervals + 2, "one each, however often it is read"


async def test_a_slow_reader_slows_the_sources() -> None:
    setup = _context(directory_of({f"n{index}": {} for index in range(QUEUE_MAX)}))
    source = _Source(
        setup, "many", lambda: [_sample(f"n{index}", now_ms()) for index in range(QUEUE_MAX)]
    )
    async with setup.server, Collector(setup, [source]) as collector:
        await until(lambda: source.reads == 2)
        await asyncio.sleep(0.5)
        assert source.reads == 2
        messages = collector.messages()
        for _ in range(2 * QUEUE_MAX):
            await anext(messages)
        await until(lambda: source.reads > 2)


async def test_configured_sources_measure_a_cluster() -> None:
    """A fake API server with two nodes and their proxies, and a fake Prometheus with GPUs."""

    async def answer(request: web.Request) -> web.StreamResponse:
        path, at_ms = request.path, now_ms()
        seconds = at_ms / 1_000  # so each node uses one core, regardless of delays
        if "watch" in request.query:
            await asyncio.sleep(60)
        if path == "/api/v1/nodes":
            items: list[Any] = [{"metadata": {"name": name}, "status": {}} for name in ("n1", "n2")]
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": items})
        if path == "/api/v1/pods":
            pod = {"metadata": {"namespace": "shop", "name": "a", "uid": "u"}, "spec": {"nodeName": "n1"}}  # fmt: skip
            return web.json_response({"metadata": {"resourceVersion": "1"}, "items": [pod]})
        if path == "/api/v1/query":
            result = [{"metric": {"instance": "n1"}, "value": [1, "4"]}]
            data = {"resultType": "vector", "result": result}
            return text(orjson.dumps({"status": "success", "data": data}))
        assert path.endswith("/proxy/metrics/resource")
        return text(exposition(node_lines(seconds, 2**30, at_ms) + pod_lines("a", seconds, 2**20, at_ms)))  # fmt: skip

    async with playing(answer) as url, api_server(url) as api:
        listed = f"""
        sources:
          - {{source: kubelet_resource, via: apiServer, interval: 200ms}}
          - {{source: prometheus, url: "{url}", interval: 200ms, nodes: {{nvidia.com/gpu: gpus}}}}
        """
        setup = context(api, Directory())
        sources = create_sources(read_sources(listed, list_settings_classes()), setup)
        samples: dict[str, NodeUsage] = {}
        async with Collector(setup, sources) as collector:
            async for topic, message in collector.messages():
                assert topic == "node-usage"
                assert isinstance(message, NodeUsage)
                samples[message.node] = message
                done = {"n1", "n2"} <= samples.keys() and "nvidia.com/gpu" in samples["n1"].usage
                if done and samples["n1"].pods:
                    break
    assert samples["n1"].usage["nvidia.com/gpu"] == 4
    assert "nvidia.com/gpu" not in samples["n2"].usage
    assert 800 <= samples["n1"].usage["cpu"] <= 1_200
    assert [(pod.uid, pod.usage["memory"]) for pod in samples["n1"].pods] == [("u", 2**20)]
