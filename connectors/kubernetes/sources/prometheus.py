"""A Prometheus server, or another server with its HTTP API: PromQL queries per resource.

Once per interval all queries are evaluated at one instant. A label of a series has the node's name or
address, with or without a port; labels with namespace and name identify a pod. CPU is in cores, other
resources in their base units. Queries come from presets (`promql`) and from the settings, which take
precedence and may have any resource.

- The query `nodeTimes` returns the times of samples, because rates continue after the last scrape. Without
  this query, the time of a sample is the instant of evaluation.
- If a resource of a node has no value, only this resource is left out. For CPU and memory, this is reported.
- A partial answer (a warning of a server that could not query all its stores) is refused, because its
  sums are too small.
- A pod younger than the window is left out, because the values may belong to an earlier pod of its name.
- If a query fails, only its resource is missing. Reading fails if the query of times or all queries of
  nodes fail.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

import aiohttp
import orjson
from pydantic import Field

from connectors.kubernetes.sources.base import KubernetesSource, SourceContext
from connectors.kubernetes.sources.directory import PodName
from connectors.kubernetes.sources.health import SKEW_MAX_MS, SourceFailed
from connectors.kubernetes.sources.http import (
    AnswerTimes,
    build_tls_context,
    estimate_skew_ms,
    fetch,
    read_secret,
)
from connectors.kubernetes.sources.precedence import REQUIRED
from connectors.kubernetes.sources.promql import PRESETS, Preset, SeriesByKey
from connectors.kubernetes.sources.settings import Interval, SourceSettings, find_tls_conflicts
from schemas.base.message import ResourceName
from schemas.messages.usage import PODS_PER_SAMPLE_MAX, NodeUsage
from schemas.policy.durations import PositiveDuration
from schemas.policy.parts import Conflict, Items

_Queries = Annotated[
    dict[ResourceName, Annotated[str, Field(min_length=1, max_length=8_192)]],
    Field(max_length=32),
]
_Label = Annotated[str, Field(pattern=r"^[a-zA-Z_][a-zA-Z0-9_]*$")]
#: Key of the query of times, among (node or pod, resource).
_TIMES = ("times", "")
#: Most concurrent queries.
QUERIES_AT_ONCE = 4
#: Beginnings of warnings about the query itself; the answer is complete nevertheless.
_ABOUT_QUERY = ("PromQL warning", "PromQL info")


class PrometheusSettings(SourceSettings):
    """Address of the server, and its queries."""

    interval_ms: Interval = Field(30_000, alias="interval")
    """Time between two measurements of a node."""
    url: Annotated[str, Field(pattern=r"^https?://")]
    """Address of the API, without `/api/v1`."""
    presets: Items[Literal["nodeExporter", "cadvisor"]] = ()
    """Sets of queries; for a resource in both, the last set counts."""
    nodes: _Queries = Field(default_factory=dict)
    """PromQL with one number per node; required without a preset. CPU in cores, other resources in
    base units, rounded. If a query fails, only its resource is missing."""
    pods: _Queries = Field(default_factory=dict)
    """PromQL with one number per pod."""
    node_times: str | None = None
    """PromQL with the time of a node's newest figures, in seconds since 1970. None: the preset's query."""
    window_ms: PositiveDuration = Field(120_000, alias="window")
    """Replaces `{window}` in queries; with four scrape intervals, two samples may be missing."""
    node_label: _Label = "instance"
    """Label with a node's name or address; replaces `{node}` in queries."""
    namespace_label: _Label = "namespace"
    """Label with a pod's namespace; replaces `{namespace}`."""
    pod_label: _Label = "pod"
    """Label with a pod's name; replaces `{pod}`."""
    timeout_ms: PositiveDuration = Field(20_000, alias="timeout")
    """Longest time of one query."""
    token_file: str | None = None
    """File with a bearer token; needs https."""
    ca_file: str | None = None
    """PEM file with the CA of the server's certificate; needs https. None: the system's CAs."""
    insecure: bool = False
    """Trust any certificate; needs https."""

    def conflicts(self) -> Iterable[Conflict]:
        """Yield TLS settings without https, and missing queries of nodes."""
        yield from find_tls_conflicts(self, ("token_file", "ca_file", "insecure"))
        if not self.nodes and not self.presets:
            message = "required without a preset: samples need queries of nodes"
            yield Conflict(("nodes",), message, ("nodes", "presets"))

    @property
    def can_report_nodes(self) -> bool:
        """Whether there are queries of nodes' CPU and memory."""
        return self.queries().nodes.keys() >= REQUIRED

    def queries(self) -> Preset:
        """Return the queries of presets and settings, with window and labels filled in."""
        nodes: dict[str, str] = {}
        pods: dict[str, str] = {}
        times = None
        for name in self.presets:
            preset = PRESETS[name]
            nodes |= preset.nodes
            pods |= preset.pods
            times = preset.node_times
        return Preset(
            {name: self._expand(query) for name, query in {**nodes, **self.nodes}.items()},
            {name: self._expand(query) for name, query in {**pods, **self.pods}.items()},
            self._expand(self.node_times or times) if self.node_times or times else None,
        )

    def _expand(self, query: str | None) -> str:
        text = query or ""
        for placeholder, value in (
            ("{window}", f"{self.window_ms}ms"),
            ("{node}", self.node_label),
            ("{namespace}", self.namespace_label),
            ("{pod}", self.pod_label),
        ):
            text = text.replace(placeholder, value)
        return text


@dataclass(frozen=True, slots=True)
class _Answers:
    """Results of all queries."""

    nodes: dict[str, dict[str, int]]
    """Usage by node."""
    pods: dict[str, dict[tuple[str, str], dict[str, int]]]
    times_ms: dict[str, int]
    failed: set[str]
    """Resources of nodes whose query failed."""


class Prometheus(KubernetesSource[PrometheusSettings]):
    """Any resource of nodes and pods that PromQL can express."""

    name: ClassVar[str] = "prometheus"
    settings_class: ClassVar[type[SourceSettings]] = PrometheusSettings

    def __init__(self, settings: PrometheusSettings, context: SourceContext) -> None:
        super().__init__(settings, context)
        self._queries = settings.queries()
        self.memory_is = None
        if "memory" not in settings.nodes and settings.presets:
            self.memory_is = PRESETS[settings.presets[-1]].memory_is
        self._session: aiohttp.ClientSession | None = None
        self._slots = asyncio.Semaphore(QUERIES_AT_ONCE)
        self._sampled_at_ms: dict[str, int] = {}

    async def run(self) -> None:
        """Keep connections open until it is cancelled."""
        try:
            await asyncio.Event().wait()
        finally:
            await self.close()

    async def close(self) -> None:
        if self._session is not None:
            await self._session.close()
            self._session = None

    async def read(self) -> AsyncIterator[NodeUsage]:
        """Yield a sample of each node with a new measurement; raises SourceFailed."""
        self.require_listed()
        now_ms = self.context.now_ms()
        answers = await self._run_queries(now_ms)
        self.health.record_success()
        self.health.keep_only(self.directory.nodes.keys())
        required = REQUIRED & self._queries.nodes.keys() - answers.failed
        for node, usage in answers.nodes.items():
            missing = required - usage.keys()
            at_ms = answers.times_ms.get(node) if self._queries.node_times else now_ms
            if missing or at_ms is None:
                missing_names = ", ".join(sorted(missing)) or "times"
                self.health.record_failure(
                    SourceFailed("incomplete", f"no query returned its {missing_names}"), node
                )
            else:
                self.health.record_success(node)
            if at_ms is None or at_ms <= self._sampled_at_ms.get(node, 0):
                continue
            self._sampled_at_ms[node] = at_ms
            self.health.counts["samples"] += 1
            yield NodeUsage(
                cluster=self.cluster,
                node=node,
                sampled_at_ms=at_ms,
                interval_ms=self.settings.window_ms,
                usage=usage,
                pods=self._pods(node, answers, at_ms),
            )
        # Without a query of CPU or memory, nodes may be missing: not every node has GPUs.
        missing_nodes = self.directory.nodes.keys() - answers.nodes.keys()
        for node in missing_nodes if required else ():
            self.health.record_failure(
                SourceFailed("incomplete", "no query returned this node"), node
            )

    def _pods(self, node: str, answers: _Answers, at_ms: int) -> tuple[Any, ...]:
        pods = self.directory.pods_on(node).pods
        oldest_ms = at_ms - self.settings.window_ms
        return tuple(
            {"namespace": name[0], "name": name[1], "uid": pod.uid, "usage": usage}
            for name, usage in answers.pods.get(node, {}).items()
            if (pod := pods.get(name)) is not None and pod.created_at_ms <= oldest_ms
        )[:PODS_PER_SAMPLE_MAX]

    async def _run_queries(self, now_ms: int) -> _Answers:
        queries = self._queries
        texts = {("node", resource): text for resource, text in queries.nodes.items()}
        texts |= {("pod", resource): text for resource, text in queries.pods.items()}
        if queries.node_times:
            texts[_TIMES] = queries.node_times
        async with asyncio.TaskGroup() as group:
            tasks = {
                key: group.create_task(self._try_query(text, now_ms)) for key, text in texts.items()
            }
        results = {key: task.result() for key, task in tasks.items()}
        failed = {key: why for key, why in results.items() if isinstance(why, SourceFailed)}
        node_failures = {
            resource: why for (kind, resource), why in failed.items() if kind == "node"
        }
        if len(node_failures) == len(queries.nodes):
            raise next(iter(node_failures.values()))
        if _TIMES in failed:
            raise failed[_TIMES]
        answers = _Answers({}, {}, {}, set(node_failures))
        for key, result in results.items():
            kind, resource = key
            name, why = f"{kind} {resource}", failed.get(key)
            vector = [] if isinstance(result, SourceFailed) else result
            if why is not None:
                self.health.failures[why.cause] += 1
            if key == _TIMES:
                self._take_times(answers, vector, now_ms)
                continue
            self.health.set_note(f"query {name}", f"{name}: {why}" if why else None)
            (self._take_nodes if kind == "node" else self._take_pods)(answers, resource, vector)
        return answers

    def _take_times(self, answers: _Answers, vector: list[Any], now_ms: int) -> None:
        for labels, value in vector:
            if (node := self._find_node(labels)) and 0 < value < 4e9:
                at_ms = max(int(value * 1_000), answers.times_ms.get(node, 0))
                answers.times_ms[node] = min(at_ms, now_ms)

    def _take_nodes(self, answers: _Answers, resource: str, vector: list[Any]) -> None:
        series = SeriesByKey[str](f"nodes' {resource}", resource)
        for labels, value in vector:
            if node := self._find_node(labels):
                series.take(node, node, labels, value)
        for node, amount in series.amounts.items():
            answers.nodes.setdefault(node, {})[resource] = amount
        self._note(series)

    def _take_pods(self, answers: _Answers, resource: str, vector: list[Any]) -> None:
        settings = self.settings
        series = SeriesByKey[tuple[str, PodName]](f"pods' {resource}", resource)
        for labels, value in vector:
            name = (labels.get(settings.namespace_label, ""), labels.get(settings.pod_label, ""))
            if node := self._find_node(labels):
                series.take((node, name), f"{node}/{'/'.join(name)}", labels, value)
        for (node, name), amount in series.amounts.items():
            answers.pods.setdefault(node, {}).setdefault(name, {})[resource] = amount
        self._note(series)

    def _note(self, series: SeriesByKey[Any]) -> None:
        for about, sentence in series.describe_doubts():
            self.health.set_note(about, sentence)
        self.health.counts["numbers_wrong"] += len(series.wrong)

    def _find_node(self, labels: Mapping[str, str]) -> str | None:
        instance = labels.get(self.settings.node_label)
        node = self.directory.node_of(instance) if instance else None
        if node is None:
            self.health.counts["of_no_node"] += 1
        return node

    async def _try_query(self, query: str, now_ms: int) -> list[Any] | SourceFailed:
        try:
            async with self._slots:
                return await self.query(query, now_ms)
        except SourceFailed as failed:
            return failed

    async def query(self, query: str, now_ms: int) -> list[tuple[Mapping[str, str], float]]:
        """Return labels and number of each series of an instant query; raises SourceFailed."""
        settings = self.settings
        if self._session is None:
            self._session = aiohttp.ClientSession(cookie_jar=aiohttp.DummyCookieJar())
        encrypted = settings.url.startswith("https:")
        token = f"Bearer {read_secret(settings.token_file)}" if settings.token_file else None
        answer = await fetch(
            self._session,
            f"{settings.url.rstrip('/')}/api/v1/query",
            tls=build_tls_context(settings.ca_file, insecure=settings.insecure)
            if encrypted
            else False,
            token=token,
            timeout_s=settings.timeout_ms / 1_000,
            form={
                "query": query,
                "time": f"{now_ms / 1_000:.3f}",
                "timeout": f"{settings.timeout_ms}ms",
            },
        )
        self._compare_clocks(answer.times)
        return self._parse_vector(query, answer.body)

    def _parse_vector(self, query: str, body: bytes) -> list[tuple[Mapping[str, str], float]]:
        try:
            read = orjson.loads(body)
            if read["status"] != "success":
                raise SourceFailed("refused", f"{query}: {read.get('error')}")
            partial = [
                warning
                for warning in read.get("warnings") or ()
                if not warning.startswith(_ABOUT_QUERY)
            ]
            if partial:
                raise SourceFailed("incomplete", f"{query}: a partial answer: {'; '.join(partial)}")
            data = read["data"]
            if data["resultType"] != "vector":
                kind = data["resultType"]
                raise SourceFailed("refused", f"{query}: found a {kind}; expected a vector")
            return [(series["metric"], float(series["value"][1])) for series in data["result"]]
        except (orjson.JSONDecodeError, KeyError, TypeError, ValueError, AttributeError) as error:
            why = f"{query}: the answer is not in Prometheus' format: {error!r}"
            raise SourceFailed("unreadable", why) from error

    def _compare_clocks(self, times: AnswerTimes) -> None:
        skew = estimate_skew_ms(times, None)
        off = skew is not None and abs(skew) > SKEW_MAX_MS
        self.health.set_note(
            "clock", f"the server's clock is {skew} ms ahead of ours" if off else None
        )
