"""Answers to usage sources, and the resulting samples."""

import asyncio
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aiohttp import web

from connectors.kubernetes.sources.collector import drop_impossible
from connectors.kubernetes.sources.directory import Directory, KnownNode
from connectors.kubernetes.sources.health import SourceFailed, SourceHealth, SourceReport
from connectors.kubernetes.sources.http import AnswerTimes, HttpAnswer
from connectors.kubernetes.sources.kubelet.requests import KubeletSettings
from connectors.kubernetes.sources.kubelet.resource import KubeletResource
from connectors.kubernetes.sources.prometheus import Prometheus, PrometheusSettings
from connectors.process.wall_clock import now_ms
from schemas.messages.usage import NodeUsage
from schemas.policy.validation import build_model
from streams.aggregate.samples import extract_figures
from tests.cases.case import case, cases
from tests.connectors.kubernetes.sources.builders import container_lines, exposition, node_lines
from tests.connectors.kubernetes.sources.harness import (
    api_server,
    at_work,
    context,
    directory_of,
    playing,
    read_all,
)

#: Answer to a query: series with values, a status, or None: no answer in time.
_Answer = list[tuple[dict[str, str], Any]] | int | None
_T0 = 1_770_000_000_000


def _poll(
    *polls: Mapping[str, _Answer], directory: Directory | None = None, **settings: Any
) -> tuple[list[list[NodeUsage] | SourceFailed], SourceReport]:
    """Poll a Prometheus every 30 s, with these answers by query; return samples or failures."""

    async def run() -> tuple[list[list[NodeUsage] | SourceFailed], SourceReport]:
        answers: dict[str, _Answer] = {}
        at_ms = [now_ms()]

        async def answer(request: web.Request) -> web.Response:
            form = await request.post()
            reply = answers[str(form["query"])]
            if reply is None:
                await asyncio.sleep(2)
            if isinstance(reply, int):
                return web.json_response({"status": "error"}, status=reply)
            result = [{"metric": labels, "value": [1, str(value)]} for labels, value in reply or []]
            data = {"status": "success", "data": {"resultType": "vector", "result": result}}
            return web.json_response(data)

        queries = {name: name for name in polls[0]}
        given = {"source": "prometheus", "nodes": queries, "timeout": "300ms", **settings}
        known = directory or directory_of({"n1": {}, "n2": {}})
        outcomes: list[list[NodeUsage] | SourceFailed] = []
        async with playing(answer) as url, api_server("http://nowhere.invalid") as api:
            read = build_model(PrometheusSettings, {**given, "url": url})
            source = Prometheus(read, context(api, known, lambda: at_ms[0]))
            async with at_work(source):
                for poll in polls:
                    answers.clear()
                    answers.update(poll)
                    try:
                        outcomes.append(await read_all(source))
                    except SourceFailed as failed:
                        outcomes.append(failed)
                    at_ms[0] += 30_000
            return outcomes, source.health.report()

    return asyncio.run(run())


def _describe_samples(outcome: list[NodeUsage] | SourceFailed) -> str:
    if isinstance(outcome, SourceFailed):
        return outcome.cause
    return " ".join(f"{sample.node} {sample.usage.get('cpu')}" for sample in outcome) or "no sample"


def _series(node: str, value: Any) -> tuple[dict[str, str], Any]:
    return {"instance": node}, value


@case("1.source", 'polls answer 92 %, 503, an empty vector, "abc": the last one is not written again, nor a 0',
      right="n1 9200, n1 None, no sample, n1 None")  # fmt: skip
def distinguish_no_answer_from_zero() -> str:
    memory = [_series("n1", 1)]
    outcomes, _ = _poll(
        {"cpu": [_series("n1", 9.2)], "memory": memory}, {"cpu": 503, "memory": memory},
        {"cpu": [], "memory": []}, {"cpu": [_series("n1", "abc")], "memory": memory},
    )  # fmt: skip
    return ", ".join(map(_describe_samples, outcomes))


@cases(
    "2",
    ("io-16 cpu -50.36, io-40 cpu 4.1: no negative value, its memory is kept, and the node is named",
     ("cpu", -50.359375), "io-16 memory, io-40 cpu memory; named"),
    ("io-16 cpu NaN", ("cpu", "NaN"), "io-16 memory, io-40 cpu memory; named"),
    ("io-16 memory -1", ("memory", -1), "io-16 cpu, io-40 cpu memory; named"),
)  # fmt: skip
def drop_impossible_values(wrong: tuple[str, Any]) -> str:
    directory = directory_of({"io-16": {}, "io-40": {}})
    answers = {
        "cpu": [_series("io-16", 1), _series("io-40", 4.1)],
        "memory": [_series("io-16", 5e9), _series("io-40", 6e9)],
    }
    resource, value = wrong
    answers[resource][0] = _series("io-16", value)
    (samples,), report = _poll(answers, directory=directory)
    assert isinstance(samples, list)
    kept = ", ".join(
        sorted(f"{sample.node} {' '.join(sorted(sample.usage))}" for sample in samples)
    )
    named = "named" if f"io-16 {float(value):g}" in str(report) else "not named"
    return f"{kept}; {named}"


@cases(
    "2.series",
    ("two series for one node, 1 and 7 cores", ({}, {}), "named"),
    ("the same node name in two clusters of one Prometheus", ({"cluster": "a"}, {"cluster": "b"}), "named"),
)  # fmt: skip
def name_two_series(labels: tuple[dict[str, str], dict[str, str]]) -> str:
    one, other = labels
    cpu = [({"instance": "n1", **one}, 1), ({"instance": "n1:9100", **other}, 7)]
    _, report = _poll({"cpu": cpu, "memory": [_series("n1", 1)]})
    return "named" if "series" in str(report) or "cluster" in str(report) else "not named"


@cases(
    "8",
    ("series of instance 192.168.31.17:9100, the node's InternalIP", "192.168.31.17:9100", "k8s-node2 1500"),
    ("the node's Hostname", "k8s-node2", "k8s-node2 1500"),
    ("an address that no node has", "192.168.31.18:9100", "no sample"),
)  # fmt: skip
def join_by_any_address(instance: str) -> str:
    directory = Directory()
    addresses = {"InternalIP": "192.168.31.17", "Hostname": "k8s-node2"}
    directory.set_nodes([KnownNode("k8s-node2", addresses, 10250, {})])
    directory.pods_listed = True
    answers = {"cpu": [_series(instance, 1.5)], "memory": [_series(instance, 1)]}
    (samples,), _ = _poll(answers, directory=directory)
    return _describe_samples(samples)


@case("8.timeout", "the query of GPUs times out, those of cpu and memory answer",
      right="n1 1000")  # fmt: skip
def continue_without_one_query() -> str:
    gpu = {"nvidia.com/gpu": None}
    (samples,), _ = _poll({"cpu": [_series("n1", 1)], "memory": [_series("n1", 1)], **gpu})
    return _describe_samples(samples)


# --- kubelets ------------------------------------------------------------------------------------


def _read_rates(*scrapes: tuple[int, list[Any]]) -> list[str]:
    """Return CPU rate and memory of pod a after each scrape of /metrics/resource."""
    settings = KubeletSettings.model_validate({"source": "kubelet_resource"})
    directory = directory_of({"n1": {"a": "uid-a"}})
    source = KubeletResource(settings, context(api_server("http://nowhere.invalid"), directory))
    rates = []
    for seconds, lines in scrapes:
        at_ms = _T0 + seconds * 1_000
        body = exposition([*node_lines(1_000 + seconds, 2**33, at_ms), *lines])
        sample = source.build_sample("n1", HttpAnswer(body, AnswerTimes(at_ms, at_ms + 50, None)))
        members = sample and extract_figures(sample, b"", "usage_without_page_cache_bytes").members
        usage = next((usage for (_, name, *_), usage in members or () if name == "a"), {})
        memory = usage.get("memory")
        mebibytes = "-" if memory is None else f"{memory >> 20}Mi"
        rates.append(f"{usage.get('cpu', '-')}/{mebibytes}")
    return rates


def _scrape(
    seconds: int, cpu_s: float, memory: int, start: float, shown_s: int | None = None
) -> Any:
    at_ms = _T0 + 1_000 * (seconds if shown_s is None else shown_s)
    lines = container_lines("a", "app", cpu_s, memory, at_ms)
    return seconds, [
        (name, labels, start if name == "container_start_time_seconds" else value, time)
        for name, labels, value, time in lines
    ]


@cases(
    "3",
    ("counter 120 s, then 5 s of a later start: no rate, not -1.92", (120.0, 5.0, 1.7e9 + 50), "-/100Mi"),
    ("counter 10 s, then 55 s of a later start: no rate, not 0.75", (10.0, 55.0, 1.7e9 + 50), "-/100Mi"),
    ("counter 10 s, then 55 s of the same start: 0.75 cores", (10.0, 55.0, 1.7e9), "750/100Mi"),
)  # fmt: skip
def take_no_rate_over_a_restart(given: tuple[float, float, float]) -> str:
    first, second, start = given
    scrapes = _scrape(0, first, 100 << 20, 1.7e9), _scrape(60, second, 100 << 20, start)
    return _read_rates(*scrapes)[1]


@case("4", "a pod's points: t=30 {cpu 35.1 s, 60Mi}, t=40 {0, 0}, t=20 again {34.9 s, 60Mi}, t=60 {36.6 s, 60Mi}",
      right="-/-, -/-, 50/60Mi")  # fmt: skip
def skip_points_of_dying_pods() -> str:
    mebi = 60 << 20
    rates = _read_rates(
        _scrape(30, 35.1, mebi, 1.7e9), _scrape(40, 0, 0, 1.7e9), _scrape(50, 34.9, mebi, -6.79e9, shown_s=20),
        _scrape(60, 36.6, mebi, 1.7e9),
    )  # fmt: skip
    return ", ".join(rates[1:])


@case("4.node", "a kubelet that has just started: node cpu 0 and memory 0", right="no sample")
def skip_zero_points_of_nodes() -> str:
    sample = NodeUsage(
        cluster="c", node="n1", sampled_at_ms=1_772_366_400_000, usage={"cpu": 0, "memory": 0}
    )
    possible = drop_impossible(sample, {}, SourceHealth("kubelet_resource", now_ms))
    return "no sample" if possible is None else str(possible.usage)


@cases(
    "1.pools",
    ("the label loadstream.io/pool", {"loadstream.io/pool": "batch"}, "batch"),
    ("a pool of Karpenter", {"karpenter.sh/nodepool": "spot"}, "spot"),
    ("another label", {"disk": "ssd"}, "None"),
)
def name_the_pool_of_a_node(labels: dict[str, str]) -> str:
    return str(KnownNode("n1", {}, 10250, labels).pool)


@cases(
    "1.rate",
    ("8 idle cores, a factor of 30 for one scrape: 154 cores", 154_000, "rejected: impossible"),
    ("8.4 cores of 8 (within 5 %)", 8_400, "8400"),
    ("8.5 cores of 8", 8_500, "rejected: impossible"),
)
def reject_rates_beyond_capacity(cpu: int) -> str:
    usage = {"cpu": cpu, "memory": 2**30}
    sample = NodeUsage(cluster="c", node="n1", sampled_at_ms=_T0, usage=usage)
    health = SourceHealth("test", lambda: _T0)
    kept = drop_impossible(sample, {"cpu": 8_000, "memory": 2**35}, health)
    if kept is not None:
        return str(kept.usage["cpu"])
    failures = {node.failure.cause for node in health.report().nodes if node.failure}
    return f"rejected: {' '.join(failures)}"


# --- credentials ---------------------------------------------------------------------------------


@case("40", "the token file of a Prometheus appears after the first poll; then nothing listens at its url",
      right="credentials, then unreachable")  # fmt: skip
def read_the_token_at_each_poll() -> str:
    with tempfile.TemporaryDirectory() as folder:
        token = Path(folder, "token")
        settings = {
            "source": "prometheus", "url": "https://127.0.0.1:1", "tokenFile": str(token),
            "nodes": {"cpu": "cpu", "memory": "memory"},
        }  # fmt: skip

        async def run() -> str:
            async with api_server("http://nowhere.invalid") as api:
                known = context(api, directory_of({"n1": {}}))
                source = Prometheus(build_model(PrometheusSettings, settings), known)
                outcomes = []
                async with at_work(source):
                    for text in (None, "secret"):
                        if text:
                            token.write_text(text)
                        try:
                            outcomes.append(_describe_samples(await read_all(source)))
                        except SourceFailed as failed:
                            outcomes.append(failed.cause)
            return ", then ".join(outcomes)

        return asyncio.run(run())
