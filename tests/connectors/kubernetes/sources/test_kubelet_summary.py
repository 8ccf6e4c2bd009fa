"""Samples from kubelets' `/stats/summary`, as upstream's own types marshal it."""

from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from aiohttp import web

from connectors.kubernetes.sources.clock_skew import AnswerTimes
from connectors.kubernetes.sources.directory import Directory
from connectors.kubernetes.sources.health import SourceFailed
from connectors.kubernetes.sources.http import HttpAnswer
from connectors.kubernetes.sources.kubelet.source import KubeletSettings
from connectors.kubernetes.sources.kubelet.summary import KubeletSummary
from schemas.messages.usage import NodeUsage
from tests.connectors.kubernetes.sources.builders import document
from tests.connectors.kubernetes.sources.harness import (
    api_server,
    at_work,
    context,
    directory_of,
    playing,
    text,
    until,
)
from tests.connectors.ports.usage_source_contract import UsageSourceContract, UsageSourceWorld

#: 2026-03-01T12:00:00Z, when the document's figures were measured.
AT_MS = 1_772_366_400_000


def _source(directory: Directory | None = None, **settings: object) -> KubeletSummary:
    given = KubeletSettings.model_validate({"source": "kubelet_summary", **settings})
    known = directory or directory_of({"node-1": {}})
    return KubeletSummary(given, context(api_server("http://nowhere.invalid"), known))


def _measured(source: KubeletSummary, found: Any, at_ms: int = AT_MS) -> NodeUsage | None:
    answered = AnswerTimes(at_ms + 900, at_ms + 1_000, None)
    return source.build_sample("node-1", HttpAnswer(orjson.dumps(found), answered))


def test_upstreams_summary_is_a_sample() -> None:
    source = _source(extraResources=["swap", "ephemeral-storage"])
    sample = _measured(source, document("stats_summary"))
    assert sample is not None
    assert (sample.sampled_at_ms, sample.interval_ms) == (AT_MS, 0)
    assert sample.usage == {
        "cpu": 1_500, "memory": 4 << 30, "swap": 4096, "ephemeral-storage": 20 << 30,
    }  # fmt: skip
    assert sample.memory is not None
    assert sample.memory.model_dump() == {
        "usage_without_page_cache_bytes": 2 << 30,
        "usage_with_page_cache_bytes": 6 << 30,
    }
    web_0, new = sample.pods
    assert (web_0.name, web_0.uid) == ("web-0", "8a1c0f44-0000-4000-8000-000000000001")
    assert web_0.usage == {
        "cpu": 250, "memory": 1 << 28, "swap": 0, "ephemeral-storage": 1 << 20,
    }  # fmt: skip
    assert new.usage == {"memory": 1 << 24}  # no rate of it yet: left out, not 0


def test_an_old_measurement_gives_no_new_sample() -> None:
    source = _source()
    assert _measured(source, document("stats_summary")) is not None
    assert _measured(source, document("stats_summary")) is None


def test_memory_that_the_kernel_does_not_count_is_left_out() -> None:
    found = document("stats_summary")
    found["node"]["memory"]["rssBytes"] = 0
    sample = _measured(_source(), found)
    assert sample is not None
    assert sample.memory is not None
    assert sample.memory.usage_without_page_cache_bytes is None


@pytest.mark.parametrize("missing", ["usageNanoCores", "workingSetBytes"])
def test_without_the_nodes_own_figures_there_is_no_sample(missing: str) -> None:
    found = document("stats_summary")
    found["node"]["cpu"].pop(missing, None)
    found["node"]["memory"].pop(missing, None)
    with pytest.raises(SourceFailed, match="lacks the node's CPU or memory") as failed:
        _measured(_source(), found)
    assert failed.value.cause == "incomplete"


@pytest.mark.parametrize("found", [[], {}, {"node": []}, {"node": {}, "pods": [{}]}, "x"])
def test_what_is_no_summary_is_a_failure(found: object) -> None:
    with pytest.raises(SourceFailed, match="the answer is not a summary") as failed:
        _measured(_source(), found)
    assert failed.value.cause == "unreadable"


class _World(UsageSourceWorld):
    source: KubeletSummary
    cluster, nodes = "c", ("n1", "n2")

    def __init__(self, source: KubeletSummary) -> None:
        self.source = source

    async def pass_time(self) -> None:
        before = {each.node: each.sampled_at_ms for each in self.source.health.report().nodes}
        await until(
            lambda: (
                {
                    each.node
                    for each in self.source.health.report().nodes
                    if each.sampled_at_ms and each.sampled_at_ms != before.get(each.node)
                }
                == set(self.nodes)
            )
        )


class TestKubeletSummary(UsageSourceContract):
    @pytest.fixture
    async def world(self) -> AsyncIterator[UsageSourceWorld]:
        async def answer(request: web.Request) -> web.Response:
            found = document("stats_summary")
            found["node"]["cpu"]["time"] = datetime.now(UTC).isoformat()
            return text(orjson.dumps(found))

        async with playing(answer) as url:
            directory = directory_of({"n1": {}, "n2": {}})
            source = _source(directory, url=f"{url}/{{node}}", interval="200ms")
            async with at_work(source):
                yield _World(source)
