"""The check of PromQL queries: how many nodes each query matches, and by which label."""

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.sources.base import SourceContext
from connectors.kubernetes.sources.directory import Directory
from connectors.kubernetes.sources.health import SourceFailed
from connectors.kubernetes.sources.prometheus import Prometheus, PrometheusSettings
from connectors.kubernetes.sources.settings import SourceSettings
from loadstream.doctor.findings import Finding, error, ok, warning

#: Longest time until the nodes are listed, in seconds.
_LIST_S = 30.0

_Vector = Sequence[tuple[Mapping[str, str], float]]


async def check_queries(
    server: ApiServer, cluster: str, sources: Sequence[SourceSettings]
) -> list[Finding]:
    """Run each query of each Prometheus source once."""
    prometheus_sources = [source for source in sources if isinstance(source, PrometheusSettings)]
    if not prometheus_sources:
        return []
    directory = Directory()
    following = asyncio.create_task(directory.run(server, pods=False))
    try:
        async with asyncio.timeout(_LIST_S):
            while not directory.nodes_listed:
                await asyncio.sleep(0.05)
        context = SourceContext(cluster, server, directory)
        checks = [await check_source(source, context) for source in prometheus_sources]
        return list(chain.from_iterable(checks))
    except TimeoutError:
        return [error("queries", f"the nodes cannot be listed: {directory.failing or 'no answer'}")]
    finally:
        following.cancel()
        await asyncio.gather(following, return_exceptions=True)


async def check_source(settings: PrometheusSettings, context: SourceContext) -> list[Finding]:
    """Run each query of a source once, and match its result with the nodes of the context's directory."""
    queries, source = settings.queries(), Prometheus(settings, context)
    named_queries = [
        *((f"nodes.{resource}", query) for resource, query in queries.nodes.items()),
        *((f"pods.{resource}", query) for resource, query in queries.pods.items()),
        *([("nodeTimes", queries.node_times)] if queries.node_times else []),
    ]
    findings = []
    try:
        for name, query in named_queries:
            check = f"query {settings.label} {name}"
            try:
                vector = await source.query(query, context.now_ms())
            except SourceFailed as failure:
                findings.append(error(check, str(failure)))
            else:
                findings += _match(check, vector, settings.node_label, context.directory)
    finally:
        await source.close()
    return findings


def _match(check: str, vector: _Vector, label: str, directory: Directory) -> Iterator[Finding]:
    total = len(directory.nodes)
    matched = _count_nodes(vector, label, directory)
    text = f"matches {matched} of {total} nodes by label {label}"
    if matched == total:
        yield ok(check, text)
        return
    labels = sorted({name for series, _ in vector for name in series})
    nodes = Counter({name: _count_nodes(vector, name, directory) for name in labels})
    best, most = nodes.most_common(1)[0] if nodes else ("", 0)
    if not vector:
        advice = "No series matches: check the metric's name and its label matchers"
    elif most > matched:
        advice = f"Label {best} would match {most}: set nodeLabel: {best}"
    else:
        advice = f"The series have the labels {', '.join(labels) or 'none'}"
    yield (warning if matched else error)(check, text, advice)


def _count_nodes(vector: _Vector, label: str, directory: Directory) -> int:
    values = {series[label] for series, _ in vector if label in series}
    return len({directory.node_of(value) for value in values} - {None})
