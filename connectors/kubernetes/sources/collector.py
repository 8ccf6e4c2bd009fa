"""Runs the sources of a cluster at once, each at its own interval: what `collect` is made of.

    async with Collector(context, make_sources(settings, context)) as collector:
        async for topic, message in collector.messages():
            ...                              # send it; the key is schemas.topics.catalog' of that topic
    collector.reports()                      # at any time: how the sources do

Nothing that a source meets ends the collector: it is reported (`health`) and tried again. A reader
that is slow holds the sources back; of each node they keep what is newest, and no queue grows.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self

from connectors.kubernetes.api.errors import AccessError, ApiError
from connectors.kubernetes.sources.base import KubernetesSource, SourceContext
from connectors.kubernetes.sources.health import SourceFailed, SourceHealth, SourceReport
from connectors.kubernetes.sources.precedence import Precedence
from schemas.base.capacity import find_impossible
from schemas.messages.metrics import NodeMetric
from schemas.messages.usage import NodeUsage

logger = logging.getLogger(__name__)

#: Messages that wait for the reader: half a second of 1,000 nodes a second.
QUEUE_MAX = 512
#: Pause before a source's background work, or the directory's, is begun again, in seconds.
AGAIN_S = 5.0

Item = tuple[str, NodeUsage | NodeMetric]


class Collector:
    """The sources of one cluster, running; an asynchronous context manager."""

    def __init__(self, context: SourceContext, sources: Sequence[KubernetesSource[Any]]) -> None:
        """The first of `sources` that measures a node speaks for it (`precedence`)."""
        self._context = context
        self._sources = list(sources)
        self._queue: asyncio.Queue[Item] = asyncio.Queue(QUEUE_MAX)
        self._tasks: list[asyncio.Task[None]] = []
        self._nodes_version = -1
        self._precedence = Precedence(
            [source.settings.fresh_ms for source in self._sources],
            lambda index, what: self._sources[index].health.counts.update((what,)),
        )

    async def __aenter__(self) -> Self:
        self._start(self._follow_directory())
        for index, source in enumerate(self._sources):
            self._start(self._run(source))
            self._start(self._read(index, source))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def messages(self) -> AsyncIterator[Item]:
        """Topic and message, for ever; of one node in the order of time."""
        while True:
            yield await self._queue.get()

    def reports(self) -> tuple[SourceReport, ...]:
        """How each source does, in their order."""
        return tuple(source.health.report() for source in self._sources)

    def _start(self, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def _follow_directory(self) -> None:
        pods = any(source.needs_pods for source in self._sources)
        while True:
            try:
                await self._context.directory.run(self._context.server, pods=pods)
            except Exception:
                logger.exception("nodes and pods: following them failed; it is begun again")
            await asyncio.sleep(AGAIN_S)

    async def _run(self, source: KubernetesSource[Any]) -> None:
        while True:
            try:
                await source.run()
            except Exception as error:
                logger.exception("%s: it failed; it is begun again", source.health.source)
                source.health.record_failure(_failure(error))
            else:
                return  # it has nothing to do between reads
            await asyncio.sleep(AGAIN_S)

    async def _read(self, index: int, source: KubernetesSource[Any]) -> None:
        due = time.monotonic()
        while True:
            try:
                async for message in source.read():
                    let_through = self._offer(index, message)
                    if let_through is not None:
                        await self._queue.put((source.topic, let_through))
            except SourceFailed as failed:
                source.health.record_failure(failed)
            except Exception as error:
                logger.exception("%s: reading it failed; it is tried again", source.health.source)
                source.health.record_failure(_failure(error))
            now = time.monotonic()
            # What was missed is skipped.
            due = max(due + source.interval_s, now)
            await asyncio.sleep(due - now)

    def _offer(self, index: int, message: NodeUsage | NodeMetric) -> NodeUsage | NodeMetric | None:
        directory = self._context.directory
        if self._nodes_version != directory.nodes_version:
            self._nodes_version = directory.nodes_version
            self._precedence.keep_only(directory.nodes)
        node, source = directory.nodes.get(message.node), self._sources[index]
        if isinstance(message, NodeUsage):
            possible = drop_impossible(message, node.capacity if node else {}, source.health)
            if possible is None:
                return None
            message = possible
        let_through = self._precedence.offer(index, message, self._context.now_ms())
        if let_through is None:
            return None
        added: dict[str, Any] = {"source": source.settings.label}
        if isinstance(let_through, NodeUsage):
            added["memory_is"] = source.memory_is
        if node is not None and isinstance(let_through, NodeUsage):
            capacity = {name: node.capacity.get(name, 0) for name in let_through.usage}
            added |= {
                "capacity": {name: most for name, most in capacity.items() if most} or None,
                "node_created_at_ms": node.created_at_ms,
                "pool": node.pool,
            }
        return let_through.model_copy(update=added)


def drop_impossible(
    message: NodeUsage, capacity: Mapping[str, int], health: SourceHealth
) -> NodeUsage | None:
    """Return a sample without pods that used no memory, as when they die, or more than the node has;
    None: so did the node itself."""
    if message.usage.get("memory") == 0:
        impossible: str | None = "memory: 0 was measured; every node uses some"
    else:
        impossible = find_impossible(message.usage, capacity)
    if impossible is not None:
        health.record_failure(SourceFailed("impossible", impossible), message.node)
        return None
    alive = [pod for pod in message.pods if pod.usage.get("memory") != 0]
    pods = [pod for pod in alive if find_impossible(pod.usage, capacity) is None]
    if len(pods) == len(message.pods):
        return message
    health.counts["pods_zero"] += len(message.pods) - len(alive)
    health.counts["pods_impossible"] += len(alive) - len(pods)
    return message.model_copy(update={"pods": tuple(pods)})


def _failure(error: Exception) -> OSError:
    if isinstance(error, OSError):
        return error
    known = isinstance(error, ApiError | AccessError)
    return SourceFailed("refused" if known else "unreadable", f"{type(error).__name__}: {error}")
