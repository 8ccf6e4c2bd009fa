"""Samples from `/metrics/resource` of kubelets."""

import asyncio
import time
from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import ClientSession, web
from hypothesis import given
from hypothesis import strategies as st

from connectors.kubernetes.sources.collector import Collector
from connectors.kubernetes.sources.directory import Directory
from connectors.kubernetes.sources.health import SourceFailed
from connectors.kubernetes.sources.http import AnswerTimes, HttpAnswer
from connectors.kubernetes.sources.kubelet.requests import KubeletSettings
from connectors.kubernetes.sources.kubelet.resource import KubeletResource
from connectors.kubernetes.sources.registry import create_sources
from connectors.process.wall_clock import now_ms
from schemas.messages.usage import NodeUsage
from simulation.control_plane import cluster
from simulation.control_plane.server import ControlPlane
from tests.connectors.kubernetes.sources.builders import (
    Line,
    container_lines,
    exposition,
    node_lines,
    pod_lines,
)
from tests.connectors.kubernetes.sources.harness import (
    api_server,
    at_work,
    context,
    directory_of,
    playing,
    set_pods,
    text,
    until,
)
from tests.connectors.ports.usage_source_contract import UsageSourceContract, UsageSourceWorld

T0 = 1_770_000_000_000
GIB = 2**30


def _source(directory: Directory, **settings: object) -> KubeletResource:
    kubelet = KubeletSettings.model_validate({"source": "kubelet_resource", **settings})
    return KubeletResource(kubelet, context(api_server("http://nowhere.invalid"), directory))


def _answer(lines: list[Line], at_ms: int, date_ms: int | None = None) -> HttpAnswer:
    return HttpAnswer(exposition(lines), AnswerTimes(at_ms, at_ms, date_ms))


class _Kubelet:
    """One node of a source, scraped every ten seconds."""

    def __init__(self, pods: dict[str, str], **settings: object) -> None:
        self.directory = directory_of({"n1": pods})
        self.source = _source(self.directory, **settings)
        self.at_ms, self.cpu_s = T0, 1_000.0

    def scrape(self, *lines: list[Line], cpu_s: float = 20.0) -> NodeUsage | None:
        self.at_ms += 10_000
        self.cpu_s += cpu_s
        all_lines = node_lines(self.cpu_s, 8 * GIB, self.at_ms)
        for line in lines:
            all_lines += line
        return self.source.build_sample("n1", _answer(all_lines, self.at_ms + 50))


def test_the_second_scrape_has_the_mean_between_the_two() -> None:
    kubelet = _Kubelet({"a": "uid-a"})
    assert kubelet.scrape(pod_lines("a", 50.0, GIB, T0 + 10_000)) is None
    sample = kubelet.scrape(pod_lines("a", 55.0, 2 * GIB, T0 + 20_000))
    assert sample is not None
    assert (sample.sampled_at_ms, sample.interval_ms) == (T0 + 20_000, 10_000)
    assert sample.usage == {"cpu": 2_000, "memory": 8 * GIB}
    (pod,) = sample.pods
    assert (pod.namespace, pod.name, pod.uid) == ("shop", "a", "uid-a")
    assert pod.usage == {"cpu": 500, "memory": 2 * GIB}


def test_a_pod_with_an_old_name_inherits_no_usage() -> None:
    kubelet = _Kubelet({"a": "old"})
    for seconds in (50.0, 60.0):
        kubelet.scrape(pod_lines("a", seconds, GIB, kubelet.at_ms + 10_000))
    set_pods(kubelet.directory, "n1", {"a": "new"})
    # The kubelet still returns the figures of the old pod under the same name.
    sample = kubelet.scrape(pod_lines("a", 70.0, GIB, kubelet.at_ms + 10_000))
    assert sample is not None
    assert sample.pods == ()
    sample = kubelet.scrape(pod_lines("a", 2.0, GIB, kubelet.at_ms + 10_000))
    assert sample is not None
    assert [(pod.uid, pod.usage) for pod in sample.pods] == [("new", {"memory": GIB})]
    sample = kubelet.scrape(pod_lines("a", 3.0, GIB, kubelet.at_ms + 10_000))
    assert sample is not None
    assert sample.pods[0].usage["cpu"] == 100


def test_a_pod_that_the_directory_does_not_know_is_left_out() -> None:
    kubelet = _Kubelet({"a": "uid-a"})
    for seconds in (50.0, 60.0):
        lines = [pod_lines(n, seconds, GIB, kubelet.at_ms + 10_000) for n in ("a", "b")]
        sample = kubelet.scrape(*lines)
    assert sample is not None
    assert [pod.name for pod in sample.pods] == ["a"]


def test_usage_of_containers_is_summed_without_pod_metrics() -> None:
    kubelet = _Kubelet({"a": "uid-a"})
    for seconds in (50.0, 60.0, 70.0):
        at_ms = kubelet.at_ms + 10_000
        sample = kubelet.scrape(
            container_lines("a", "web", seconds, GIB, at_ms),
            container_lines("a", "proxy", seconds / 10, GIB, at_ms),
        )
    assert sample is not None
    assert sample.pods[0].usage == {"cpu": 1_100, "memory": 2 * GIB}


def test_a_container_that_restarted_leaves_its_pod_without_cpu_once() -> None:
    kubelet = _Kubelet({"a": "uid-a"})
    cpu = []
    for app, proxy in ((50.0, 5.0), (60.0, 6.0), (1.0, 7.0), (3.0, 8.0)):
        at_ms = kubelet.at_ms + 10_000
        sample = kubelet.scrape(
            container_lines("a", "web", app, GIB, at_ms),
            container_lines("a", "proxy", proxy, GIB, at_ms),
        )
        cpu.append(None if sample is None else sample.pods[0].usage.get("cpu"))
    assert cpu == [None, 1_100, None, 300]


def test_the_time_of_receipt_is_used_without_timestamps() -> None:
    source = _source(directory_of({"n1": {}}))
    for index in range(2):
        at_ms = T0 + index * 10_000
        sample = source.build_sample("n1", _answer(node_lines(100.0 + index, GIB, None), at_ms))
    assert sample is not None
    assert (sample.sampled_at_ms, sample.usage["cpu"]) == (T0 + 10_000, 100)


@pytest.mark.parametrize(
    ("lines", "cause"),
    [
        ([], "unreadable"),
        ([("resource_scrape_error", {}, 1, None)], "server_error"),
        (node_lines(1.0, GIB, None)[1:], "incomplete"),
        (node_lines(1.0, GIB, None)[:1], "incomplete"),
    ],
)
def test_an_answer_without_the_nodes_figures_is_a_failure(lines: list[Line], cause: str) -> None:
    with pytest.raises(SourceFailed) as failed:
        _source(directory_of({"n1": {}})).build_sample("n1", _answer(lines, T0))
    assert failed.value.cause == cause


def test_a_node_with_a_wrong_clock_has_samples_at_our_time_and_it_is_reported() -> None:
    source, off_ms = _source(directory_of({"n1": {}})), 3_600_000
    for index in range(2):
        at_ms = T0 + index * 10_000
        lines = node_lines(100.0 + index, GIB, at_ms + off_ms - 2_000)
        sample = source.build_sample("n1", _answer(lines, at_ms, date_ms=at_ms + off_ms))
    assert sample is not None
    assert sample.sampled_at_ms == T0 + 10_000 - 2_500
    assert sample.usage["cpu"] == 100
    (node,) = source.health.report().nodes
    assert node.clock_skew_ms is not None
    assert abs(node.clock_skew_ms - off_ms) < 1_000


@given(st.lists(st.tuples(st.floats(0, 32), st.booleans(), st.booleans()), min_size=2, max_size=20))
def test_no_history_of_restarts_gives_a_pod_more_than_it_used(
    history: list[tuple[float, bool, bool]],
) -> None:
    kubelet, counter, uid = _Kubelet({"a": "uid-0"}), 100.0, 0
    for used, anew, replaced in history:
        counter = used if anew or replaced else counter + used
        if replaced:
            uid += 1
            set_pods(kubelet.directory, "n1", {"a": f"uid-{uid}"})
        sample = kubelet.scrape(pod_lines("a", counter, GIB, kubelet.at_ms + 10_000))
        for pod in () if sample is None else sample.pods:
            assert pod.uid == f"uid-{uid}"
            assert 0 <= pod.usage.get("cpu", 0) <= used * 100 + 1


class _World(UsageSourceWorld):
    source: KubeletResource
    cluster, nodes = "c", ("n1", "n2", "n3")

    def __init__(self, source: KubeletResource) -> None:
        self.source = source

    async def pass_time(self) -> None:
        await until(lambda: self.source._newest._unread.keys() == set(self.nodes))


async def _busy(request: web.Request) -> web.Response:
    at_ms = now_ms()
    seconds = time.monotonic() * 2
    return text(exposition(node_lines(seconds, GIB, at_ms) + pod_lines("a", seconds, GIB, at_ms)))


class TestKubeletResource(UsageSourceContract):
    @pytest.fixture
    async def world(self) -> AsyncIterator[UsageSourceWorld]:
        directory = directory_of({"n1": {"a": "1"}, "n2": {"a": "2"}, "n3": {}})
        async with playing(_busy) as url:
            source = _source(directory, url=f"{url}/{{node}}", interval="200ms")
            async with at_work(source):
                yield _World(source)


async def test_a_failing_kubelet_does_not_affect_others() -> None:
    async def handler(request: web.Request) -> web.StreamResponse:
        kind = request.path.strip("/")
        if kind == "slow":
            await asyncio.sleep(30)
        if kind.isdecimal():
            return web.Response(status=int(kind), text="no")
        if kind == "garbage":
            return text(b"<html>\n")
        if kind == "truncated":
            response = web.StreamResponse(headers={"Content-Length": "100000"})
            await response.prepare(request)
            await response.write(exposition(node_lines(1.0, GIB, None)))
            assert request.transport is not None
            request.transport.close()
            return response
        return await _busy(request)

    causes = {
        "slow": "timeout", "401": "credentials", "403": "forbidden", "404": "not_installed",
        "500": "server_error", "garbage": "unreadable", "truncated": "unreachable",
    }  # fmt: skip
    directory = directory_of({name: {} for name in (*causes, "good")})
    async with playing(handler) as url:
        source = _source(directory, url=f"{url}/{{node}}", interval="100ms", timeout="300ms")
        names: set[str] = set()
        async with at_work(source):

            async def read() -> bool:
                """Read once; a pause of this process may make every node fail once."""
                names.update([message.node async for message in source.read()])
                nodes = {node.node: node for node in source.health.report().nodes}
                failed = {name: node.failure.cause for name, node in nodes.items() if node.failure}
                return failed == causes and bool(source.health.counts["samples"])

            while not await read():
                await asyncio.sleep(0.02)
    assert names <= {"good"}


def _pod(name: str, cpu: str, memory: str = "1Gi") -> dict[str, object]:
    usage = {cluster.CPU_USAGE: cpu, cluster.MEMORY_USAGE: memory}
    return cluster.make_pod(name, node_name="n1", annotations=usage)


async def test_usage_of_real_nodes_equals_that_of_kwok(
    control_plane: ControlPlane, namespace: str
) -> None:
    """From list and watch to messages, with only the rights of the duty."""
    url = f"{control_plane.kwok_url}/metrics/nodes/{{node}}/metrics/resource"
    kubelet = KubeletSettings.model_validate(
        {"source": "kubelet_resource", "url": url, "interval": "500ms"}
    )
    async with control_plane.api() as admin, control_plane.api("loadstream-collect") as server:
        await cluster.create_nodes(admin, [cluster.make_node(name) for name in ("n1", "n2")])
        both = await cluster.create_pods(admin, namespace, [_pod("a", "1500m"), _pod("b", "2")])
        uids = {item["metadata"]["name"]: item["metadata"]["uid"] for item in both}
        shared = context(server, Directory())
        async with Collector(shared, create_sources([kubelet], shared)) as collector:

            async def until_n1(holds: Callable[[NodeUsage, dict[str, int]], bool]) -> NodeUsage:
                last: NodeUsage | None = None
                try:
                    async with asyncio.timeout(60):
                        async for _, message in collector.messages():
                            assert isinstance(message, NodeUsage)
                            if message.node != "n1":
                                assert message.usage["cpu"] == 0
                                continue
                            last = message
                            pods = {pod.name: pod.usage.get("cpu", 0) for pod in message.pods}
                            if holds(message, pods):
                                return message
                except TimeoutError:
                    async with (
                        ClientSession() as session,
                        session.get(url.format(node="n1")) as response,
                    ):
                        body = await response.text()
                    identities = shared.directory.pods_on("n1").pods
                    pytest.fail(f"last: {last}; known: {identities}; said by kwok: {body}")
                raise AssertionError

            sample = await until_n1(lambda _, pods: _near(pods, {"a": 1_500, "b": 2_000}))
            assert {pod.name: pod.uid for pod in sample.pods} == uids
            assert [pod.usage["memory"] for pod in sample.pods] == [GIB, GIB]
            await until_n1(lambda message, _: _near({"n1": message.usage["cpu"]}, {"n1": 3_500}))
            await cluster.annotate_pod(admin, namespace, "a", {cluster.CPU_USAGE: "5"})
            await until_n1(lambda _, pods: _near(pods, {"a": 5_000, "b": 2_000}))
            # A pod with the same name on the same node, as in a StatefulSet, inherits no usage.
            path = f"/api/v1/namespaces/{namespace}/pods/a"
            await cluster.delete_all(admin, path)
            is_served = False
            while not is_served:
                (again,) = await cluster.create_pods(admin, namespace, [_pod("a", "250m")])
                # kwok deletes finished pods by name, which may delete the new pod.
                await asyncio.sleep(1)
                is_served = (await admin.send("GET", path)).ok
            uid = again["metadata"]["uid"]
            # kwok sends no times, so a late answer makes two rates wrong, one of them too large.
            await until_n1(
                lambda message, _: any(
                    pod.uid == uid and pod.usage.get("cpu") == pytest.approx(250, rel=0.2)
                    for pod in message.pods
                )
            )


def _near(actual: dict[str, int], expected: dict[str, int]) -> bool:
    return actual.keys() == expected.keys() and all(
        abs(actual[name] - amount) <= 0.1 * amount for name, amount in expected.items()
    )
