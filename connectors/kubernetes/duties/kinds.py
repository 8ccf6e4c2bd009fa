"""The four duties: inputs, outputs and work while their process is active.

    watch     API server ──▶ node-state, pod-lifecycle, scheduling-requests; a full list again when a
              clock tick says that the worker's state was lost
    collect   usage sources ──▶ node-usage, node-metrics
    bind      placement-decisions ──▶ bindings, and explanations for users of pods without a node
    evict     eviction-commands ──▶ evictions; PodMigrationJobs ◀─▶ migrations

Each duty has its own API server session, so that duties do not wait for each other. A duty needs only
its own permissions.
"""

import asyncio
import logging
import secrets
from collections.abc import Awaitable, Callable, Collection, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import dataclass

from connectors.kafka.leadership import Beginning
from connectors.kafka.producer import Producer
from connectors.kafka.term import LeaderTerm
from connectors.kubernetes.api.access import Access
from connectors.kubernetes.api.server import ApiServer
from connectors.kubernetes.duties.carry_out import CLOCK, CommandExecutor
from connectors.kubernetes.duties.job_status import STATUS, JobRefusals, follow_status
from connectors.kubernetes.duties.produce import Messages, send_messages
from connectors.kubernetes.duties.telemetry import DutyTelemetry
from connectors.kubernetes.sinks.migration_jobs import MigrationJobs
from connectors.kubernetes.sinks.sink import KubernetesSink
from connectors.kubernetes.sources.base import SourceContext
from connectors.kubernetes.sources.collector import Collector
from connectors.kubernetes.sources.directory import Directory
from connectors.kubernetes.sources.registry import create_sources
from connectors.kubernetes.sources.settings import SourceSettings
from connectors.kubernetes.watch.state_watch import KubernetesWatch, WatchBroken
from connectors.process import wall_clock
from schemas.messages.clock import ClockTick
from schemas.settings.connection import KafkaSettings
from schemas.topics.codec import decode

logger = logging.getLogger(__name__)

#: Pause before a full list after a broken watch, in seconds.
RELIST_S = 1.0


@dataclass(frozen=True, slots=True)
class DutyContext:
    """Connections, producers and metrics that the duties of one process share."""

    kafka: KafkaSettings
    cluster: str
    access: Access
    producer: Producer
    outcomes: Producer
    """Producer for outcomes, which sends larger batches."""
    telemetry: DutyTelemetry
    stack: AsyncExitStack
    """Cleans up when the process ends."""


@dataclass(frozen=True, slots=True)
class Duty:
    """One duty, ready to run."""

    name: str
    work: Callable[[LeaderTerm], Awaitable[None]]
    topics: tuple[str, ...] = ()
    """Topics read from the committed offset on."""
    newest: tuple[str, ...] = ()
    """Topics read from the newest record on."""
    begin: Beginning | None = None


async def watch(context: DutyContext, schedulers: Collection[str]) -> Duty:
    """Report the state of the cluster."""
    server = await context.stack.enter_async_context(ApiServer(context.access))

    async def messages() -> Messages:
        kubernetes_watch = KubernetesWatch(
            context.cluster, server, schedulers=frozenset(schedulers)
        )
        context.telemetry.set_watch(kubernetes_watch.health)
        try:
            while True:
                try:
                    list_id = f"{wall_clock.now_ms()}-{secrets.token_hex(4)}"
                    async for item in kubernetes_watch.full_list(list_id):
                        yield item
                    async for item in kubernetes_watch.changes():
                        yield item
                except WatchBroken as broken:
                    logger.warning("the cluster is listed again: %s", broken)
                    await asyncio.sleep(RELIST_S)
        finally:
            await kubernetes_watch.close()

    async def work_during(term: LeaderTerm) -> None:
        while not term.over.is_set():
            sending = asyncio.ensure_future(send_messages(context.producer, messages(), term))
            reset = asyncio.ensure_future(_wait_for_reset(term))
            try:
                await asyncio.wait((sending, reset), return_when=asyncio.FIRST_COMPLETED)
            finally:
                sending.cancel()
                reset.cancel()
                await asyncio.wait((sending, reset))
            if not sending.cancelled():
                sending.result()

    return Duty("watch", work_during, newest=(CLOCK,))


async def _wait_for_reset(term: LeaderTerm) -> None:
    """Wait until a clock tick says that the worker's state was lost, or the term is over."""
    async for record in term.records(CLOCK):
        tick = decode(CLOCK, record.value)
        if isinstance(tick, ClockTick) and tick.state_lost:
            logger.warning(
                "the state of partition %d was reset: the cluster is listed again", term.partition
            )
            return


async def collect(context: DutyContext, sources: Sequence[SourceSettings]) -> Duty:
    """Report usage."""
    server = await context.stack.enter_async_context(ApiServer(context.access))

    async def messages() -> Messages:
        source_context = SourceContext(context.cluster, server, Directory())
        async with Collector(source_context, create_sources(sources, source_context)) as collector:
            context.telemetry.set_sources(collector.reports)
            async for item in collector.messages():
                yield item

    return Duty("collect", lambda term: send_messages(context.producer, messages(), term))


async def bind(context: DutyContext) -> Duty:
    """Execute placements.

    Explanations that are not written yet are dropped at the end of the term.
    """
    sink, _ = await _create_sink(context)
    topic = "placement-decisions"
    work = _create_executor(context, topic, sink)

    async def work_during(term: LeaderTerm) -> None:
        try:
            await work(term)
        finally:
            await sink.close()

    return Duty("bind", work_during, (topic,), (CLOCK,), work.begin)


async def evict(context: DutyContext, *, cordon: bool = True) -> Duty:
    """Execute evictions, synchronize PodMigrationJobs with migrations, and cordon drained nodes."""
    sink, server = await _create_sink(context)
    topic = "eviction-commands"
    work = _create_executor(context, topic, sink)

    async def work_during(term: LeaderTerm) -> None:
        jobs = MigrationJobs(server, context.cluster)
        refusals = JobRefusals(context.kafka, context.cluster, jobs)
        try:
            await refusals.begin()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(work(term))
                tasks.create_task(refusals(term))
                tasks.create_task(
                    follow_status(context.cluster, jobs, server if cordon else None, term)
                )
                tasks.create_task(send_messages(context.producer, _read_jobs(jobs), term))
        finally:
            await sink.close()

    return Duty("evict", work_during, (topic, STATUS), (CLOCK,), work.begin)


async def _read_jobs(jobs: MigrationJobs) -> Messages:
    async with aclosing(jobs.requests()) as requests:
        async for request in requests:
            yield "migration-requests", request


def _create_executor(context: DutyContext, topic: str, sink: KubernetesSink) -> CommandExecutor:
    counter = context.telemetry.count_outcome
    return CommandExecutor(context.kafka, context.cluster, topic, sink, context.outcomes, counter)


async def _create_sink(context: DutyContext) -> tuple[KubernetesSink, ApiServer]:
    server = await context.stack.enter_async_context(ApiServer(context.access))
    return KubernetesSink(server), server
