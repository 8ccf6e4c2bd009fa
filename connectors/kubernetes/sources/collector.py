"""Runs the sources of a cluster concurrently, each at its own interval.

    async with Collector(context, create_sources(settings, context)) as collector:
        async for topic, message in collector.messages():
            ...                              # send the message
    collector.reports()                      # health of the sources, at any time

A failure of a source does not end the collector: it is reported (`health`) and the source continues. If
the reader is slow, the sources wait and keep only the newest message of each node, so no queue grows.
"""

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Any, Self

from connectors.kubernetes.sources.base import KubernetesSource, SourceContext
from connectors.kubernetes.sources.health import SourceFailed, SourceHealth, SourceReport
from connectors.kubernetes.sources.precedence import Precedence
from schemas.base.capacity import ZERO_POINT, find_impossible, is_zero_point
from schemas.messages.metrics import NodeMetric
from schemas.messages.usage import NodeUsage

logger = logging.getLogger(__name__)

#: Most messages that wait for the reader: half a second at 1,000 nodes per second.
QUEUE_MAX = 512
#: Pause before background work of a source or the directory is restarted, in seconds.
RESTART_S = 5.0

Item = tuple[str, NodeUsage | NodeMetric]


class Collector:
    """The running sources of one cluster; an asynchronous context manager."""

    def __init__(self, context: SourceContext, sources: Sequence[KubernetesSource[Any]]) -> None:
        """The first of `sources` that measures a node reports it (`precedence`)."""
        self._context = context
        self._sources = list(sources)
        self._queue: asyncio.Queue[Item] = asyncio.Queue(QUEUE_MAX)
        self._tasks: list[asyncio.Task[None]] = []
        self._nodes_version = -1
        self._precedence = Precedence(
            [source.settings.fresh_ms for source in self._sources],
            lambda index, event: self._sources[index].health.counts.update((event,)),
        )

    async def __aenter__(self) -> Self:
        self._start(self._follow_directory())
        for index, source in enumerate(self._sources):
            self._start(self._run(source))
            self._start(self._read(index, source))
        return self

    async def __aexit__(self, *_: object) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()

    async def messages(self) -> AsyncIterator[Item]:
        """Yield topic and message, forever; those of one node in order of time."""
        while True:
            yield await self._queue.get()

    def reports(self) -> tuple[SourceReport, ...]:
        return tuple(source.health.report() for source in self._sources)

    def _start(self, work: Any) -> None:
        self._tasks.append(asyncio.create_task(work))

    async def _follow_directory(self) -> None:
        pods = any(source.needs_pods for source in self._sources)
        while True:
            try:
                await self._context.directory.run(self._context.server, pods=pods)
            except Exception:
                logger.exception("following nodes and pods failed, restarting")
            await asyncio.sleep(RESTART_S)

    async def _run(self, source: KubernetesSource[Any]) -> None:
        while True:
            try:
                await source.run()
            except Exception as error:
                logger.exception("%s: failed, restarting", source.health.source)
                source.health.record_failure(_convert_failure(error))
            else:
                return  # it has no work between reads
            await asyncio.sleep(RESTART_S)

    async def _read(self, index: int, source: KubernetesSource[Any]) -> None:
        due = time.monotonic()
        while True:
            try:
                async for message in source.read():
                    selected = self._offer(index, message)
                    if selected is not None:
                        await self._queue.put((source.topic, selected))
            except SourceFailed as failed:
                source.health.record_failure(failed)
            except Exception as error:
                logger.exception("%s: reading failed, trying again", source.health.source)
                source.health.record_failure(_convert_failure(error))
            now = time.monotonic()
            # Missed readings are skipped.
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
        selected = self._precedence.offer(index, message, self._context.now_ms())
        if selected is None:
            return None
        added: dict[str, Any] = {"source": source.settings.label}
        if isinstance(selected, NodeUsage):
            added["memory_is"] = source.memory_is
        if node is not None and isinstance(selected, NodeUsage):
            capacity = {name: node.capacity.get(name, 0) for name in selected.usage}
            added |= {
                "capacity": {name: most for name, most in capacity.items() if most} or None,
                "node_created_at_ms": node.created_at_ms,
                "pool": node.pool,
            }
        return selected.model_copy(update=added)


def drop_impossible(
    message: NodeUsage, capacity: Mapping[str, int], health: SourceHealth
) -> NodeUsage | None:
    """Return the sample without pods with impossible usage; None: the usage of the node is impossible."""
    impossible = find_impossible(message.usage, capacity)
    if is_zero_point(message.usage):
        impossible = ZERO_POINT
    if impossible is not None:
        health.record_failure(SourceFailed("impossible", impossible), message.node)
        return None
    pods = [pod for pod in message.pods if find_impossible(pod.usage, capacity) is None]
    if len(pods) == len(message.pods):
        return message
    health.counts["pods_impossible"] += len(message.pods) - len(pods)
    return message.model_copy(update={"pods": tuple(pods)})


def _convert_failure(error: Exception) -> OSError:
    if isinstance(error, OSError):
        return error
    return SourceFailed("unreadable", f"{type(error).__name__}: {error}")
