"""Commands are carried out once, during a term, and reported before their offset is committed."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import pytest

from connectors.kafka.leadership import Leadership
from connectors.kafka.partition_records import read_since
from connectors.kafka.producer import Producer
from connectors.kafka.term import END_S
from connectors.kubernetes.duties import carry_out as module
from connectors.kubernetes.duties.carry_out import (
    CLOCK,
    OUTCOMES,
    UNDER_WAY_MAX,
    CommandExecutor,
    TopicProgress,
)
from connectors.ports.command_rules import CommandRules
from connectors.ports.sink import DONE, Attempt, Sink
from connectors.process.wall_clock import now_ms
from schemas.messages.clock import ClockTick
from schemas.messages.commands import CommandOutcome, EvictionCommand
from schemas.messages.decisions import PlacementDecision
from schemas.messages.pods import PodRef
from schemas.topics.codec import decode
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker
from tests.connectors.ports.sink_contract import CLUSTER, MINUTE_MS, decision

_TOPIC = "placement-decisions"


class _Cluster(Sink):
    """A sink that binds pods while it is open."""

    name = "of the test"

    def __init__(self) -> None:
        self.bound: list[str] = []
        self.under_way = 0
        self.open = asyncio.Event()
        self.open.set()

    async def bind(self, decision: PlacementDecision) -> Attempt:
        self.under_way += 1
        await self.open.wait()
        self.under_way -= 1
        self.bound.append(decision.decision_id)
        return DONE

    async def evict(self, command: EvictionCommand) -> Attempt:
        raise AssertionError("a binder evicts nothing")


def placement(number: int, at_ms: int, life_ms: int = MINUTE_MS) -> PlacementDecision:
    """Return the decision of a separate pod."""
    pod = PodRef(namespace="shop", name=f"web-{number}", uid=f"uid-{number}")
    return decision(
        pod,
        "n1",
        decision_id=f"decision-{number:04}",
        decided_at_ms=at_ms,
        expires_at_ms=at_ms + life_ms,
    )


@asynccontextmanager
async def binder(broker: RunningBroker, cluster: _Cluster) -> AsyncIterator[Leadership]:
    """Run a binder."""
    async with Producer(broker.settings) as producer:
        work = CommandExecutor(broker.settings, CLUSTER, _TOPIC, cluster, producer)
        member = Leadership(
            broker.settings, CLUSTER, "bind", topics=[_TOPIC], newest=[CLOCK], begin=work.begin
        )
        running = asyncio.create_task(member.run(work))
        try:
            yield member
            assert not running.done() or running.result()
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


async def outcomes(broker: RunningBroker) -> list[tuple[str, str]]:
    """Return id and result of all outcomes."""
    partition = partition_for(CLUSTER.encode(), broker.settings.partitions)
    results: list[tuple[str, str]] = []
    async for record in read_since(broker.settings, OUTCOMES, partition, 0):
        outcome = decode(OUTCOMES, record.value)
        assert isinstance(outcome, CommandOutcome)
        results.append((outcome.command_id, outcome.result))
    return results


async def wait_for_results(broker: RunningBroker, count: int) -> list[tuple[str, str]]:
    """Wait for this number of outcomes and return them."""
    async with asyncio.timeout(120):
        while len(results := await outcomes(broker)) < count:
            await asyncio.sleep(0.2)
    return results


async def send(broker: RunningBroker, decisions: Sequence[PlacementDecision]) -> None:
    async with Producer(broker.settings) as producer:
        await producer.deliver(_TOPIC, decisions)


async def tick(broker: RunningBroker, at_ms: int) -> None:
    partition = partition_for(CLUSTER.encode(), broker.settings.partitions)
    async with Producer(broker.settings) as producer:
        await producer.deliver(CLOCK, [ClockTick(partition=partition, now_ms=at_ms)])


def ids(first: int, end: int) -> list[str]:
    return [f"decision-{number:04}" for number in range(first, end)]


@pytest.mark.parametrize("behind_ms", [0, 60 * MINUTE_MS])
async def test_each_placement_is_bound_and_reported_once_over_restarts(
    broker: RunningBroker, behind_ms: int
) -> None:
    """The log's clock stops while no worker runs, and each host has its own clock."""
    cluster, at_ms = _Cluster(), now_ms() - behind_ms
    await tick(broker, at_ms)
    await send(broker, [placement(number, at_ms) for number in range(200)])
    async with binder(broker, cluster):
        await wait_for_results(broker, 200)
    await send(broker, [placement(number, at_ms) for number in range(150, 220)])
    async with binder(broker, cluster):
        results = await wait_for_results(broker, 220)
    assert sorted(cluster.bound) == ids(0, 220)
    assert sorted(results) == [(command_id, "done") for command_id in ids(0, 220)]


async def test_commands_that_expire_while_the_cluster_is_silent_are_not_executed(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Time advances for waiting commands, even if more wait than may run at once."""
    times: list[int] = []

    class Rules(CommandRules):
        def advance_clock(self, now_ms: int) -> None:
            super().advance_clock(now_ms)
            times.append(self.now_ms)

    monkeypatch.setattr(module, "CommandRules", Rules)
    cluster, at_ms = _Cluster(), now_ms()
    late_ms = at_ms + 2 * MINUTE_MS
    cluster.open.clear()
    count = 1_200
    await tick(broker, at_ms)
    await send(broker, [placement(number, at_ms) for number in range(count)])
    async with binder(broker, cluster):
        async with asyncio.timeout(60):
            while cluster.under_way < 64:
                await asyncio.sleep(0.05)
        await tick(broker, late_ms)
        async with asyncio.timeout(60):
            while late_ms not in times:
                await asyncio.sleep(0.05)
        cluster.open.set()
        results = await wait_for_results(broker, count)
    assert len(cluster.bound) == 64
    assert sum(result == "expired" for _, result in results) == count - 64


async def test_a_killed_binder_leaves_unfinished_commands_to_the_next(
    broker: RunningBroker,
) -> None:
    cluster, at_ms = _Cluster(), now_ms()
    cluster.open.clear()
    await tick(broker, at_ms)
    await send(broker, [placement(number, at_ms) for number in range(3)])
    async with binder(broker, cluster) as member:
        async with asyncio.timeout(60):
            while cluster.under_way < 3:
                await asyncio.sleep(0.05)
        term, member.term = member.term, None  # not awaited, as if the process were killed
        assert term is not None
        term.over.set()
    assert await outcomes(broker) == []
    later = _Cluster()
    async with binder(broker, later):
        await wait_for_results(broker, 3)
    assert sorted(later.bound) == ids(0, 3)


def test_progress_stops_before_an_unfinished_record() -> None:
    progress = TopicProgress()
    for offset in (4, 5, 9):
        progress.begin(offset)
    assert progress.end(5) == 4
    assert progress.end(4) == 9
    assert progress.end(9) == 10


async def test_the_end_of_a_term_does_not_wait_for_another_attempt(broker: RunningBroker) -> None:
    """More commands wait for a retry than may run at once; the next active member carries them out."""

    class Full(_Cluster):
        async def bind(self, decision: PlacementDecision) -> Attempt:
            self.under_way += 1
            return Attempt("failed", "later", again_in_s=3_600.0)

    cluster, at_ms = Full(), now_ms()
    await tick(broker, at_ms)
    await send(broker, [placement(n, at_ms, 2 * 3_600_000) for n in range(UNDER_WAY_MAX + 10)])
    async with binder(broker, cluster):
        async with asyncio.timeout(60):
            while cluster.under_way < UNDER_WAY_MAX:
                await asyncio.sleep(0.05)
        leaving = asyncio.get_running_loop().time()
    assert asyncio.get_running_loop().time() - leaving < END_S
    assert await outcomes(broker) == []
    later = _Cluster()
    async with binder(broker, later):
        await wait_for_results(broker, UNDER_WAY_MAX + 10)
    assert sorted(later.bound) == ids(0, UNDER_WAY_MAX + 10)
