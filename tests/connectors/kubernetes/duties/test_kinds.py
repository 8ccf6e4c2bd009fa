"""The watch lists its cluster again when a worker has lost its state."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from connectors.kafka.leadership import Leadership
from connectors.kafka.partition_records import read_since
from connectors.kafka.producer import Producer
from connectors.kubernetes.duties.kinds import DutyContext, watch
from connectors.kubernetes.duties.telemetry import DutyTelemetry
from connectors.kubernetes.watch.kinds import PODS
from connectors.process.wall_clock import now_ms
from schemas.messages.clock import ClockTick
from schemas.messages.decisions import SchedulingRequest
from schemas.messages.lists import ListEnd
from schemas.topics.codec import decode
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker
from tests.connectors.kubernetes.watch.documents import OTHERS, node, pod
from tests.connectors.kubernetes.watch.fake_api import FakeApi, Served

_CLUSTER = "c1"


@asynccontextmanager
async def _serve() -> AsyncIterator[Served]:
    """Serve a node and a waiting pod."""
    api = FakeApi()
    for path, document in OTHERS.items():
        api.put(path, document)
    api.put("/api/v1/nodes", node("node-1"))
    api.put(PODS, pod("waiting"))
    served = Served(api)
    await served.start()
    try:
        yield served
    finally:
        await served.stop()


async def _count(broker: RunningBroker, topic: str, kind: type) -> int:
    """Return the number of messages of a kind."""
    home = partition_for(_CLUSTER.encode(), broker.settings.partitions)
    records = read_since(broker.settings, topic, home, 0)
    return sum([isinstance(decode(topic, record.value), kind) async for record in records])


async def test_a_tick_after_lost_state_makes_the_watch_list_again(
    embedded: RunningBroker,
) -> None:
    kafka, home = embedded.settings, partition_for(_CLUSTER.encode(), embedded.settings.partitions)

    async def wait_for_lists(times: int) -> None:
        async with asyncio.timeout(60):
            while (
                await _count(embedded, "pod-lifecycle", ListEnd) < times
                or await _count(embedded, "scheduling-requests", SchedulingRequest) < times
            ):
                await asyncio.sleep(0.2)

    async with _serve() as served, AsyncExitStack() as stack:
        producer = await stack.enter_async_context(Producer(kafka))
        around = DutyContext(
            kafka, _CLUSTER, served.access, producer, producer, DutyTelemetry(_CLUSTER), stack
        )
        duty = await watch(around, {"loadstream"})
        member = Leadership(kafka, _CLUSTER, duty.name, newest=duty.newest)
        running = asyncio.create_task(member.run(duty.work))
        tick = ClockTick(partition=home, now_ms=now_ms())
        try:
            await wait_for_lists(1)
            lost = tick.model_copy(update={"state_lost": True})
            await producer.deliver("clock", [tick, lost])
            await wait_for_lists(2)
            await producer.deliver("clock", [tick])
            await asyncio.sleep(1)
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)
    assert await _count(embedded, "pod-lifecycle", ListEnd) == 2
