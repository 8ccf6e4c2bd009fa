"""One member of a group at a time is active for a cluster, whatever happens to other members."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field

import pytest

from connectors.kafka.leadership import Leadership
from connectors.kafka.producer import Producer
from connectors.kafka.term import LeaderTerm, TermOver
from schemas.messages.commands import CommandOutcome
from schemas.messages.pods import PodRef
from schemas.topics.codec import decode
from tests.conftest import RunningBroker

_CLUSTER = "c1"
_TOPIC = "command-outcomes"


def outcome(number: int) -> CommandOutcome:
    """Return a numbered record."""
    return CommandOutcome(
        command_id=f"command-{number:04}",
        cluster=_CLUSTER,
        command="bind",
        pod=PodRef(namespace="n", name="p", uid="u"),
        result="done",
        happened_at_ms=1_700_000_000_000 + number,
    )


@dataclass
class _Worker:
    """Work that writes to a log shared by all members."""

    name: str
    log: list[str]
    read: list[str] = field(default_factory=list)
    mark_done: bool = True
    terms: int = 0

    async def __call__(self, term: LeaderTerm) -> None:
        self.terms += 1
        name = self.name
        reading = asyncio.create_task(self._read(term))
        with suppress(TermOver):
            while True:
                async with term.writing():
                    self.log.append(f"{name}: begins")
                    await asyncio.sleep(0.02)
                    self.log.append(f"{name}: ends")
                await asyncio.sleep(0.02)
        await reading

    async def _read(self, term: LeaderTerm) -> None:
        async for record in term.records(_TOPIC):
            message = decode(record.topic, record.value)
            assert isinstance(message, CommandOutcome)
            self.read.append(message.command_id)
            if self.mark_done:
                term.mark_done(record.topic, record.offset + 1)


@asynccontextmanager
async def join(
    broker: RunningBroker, work: Callable[[LeaderTerm], Awaitable[None]]
) -> AsyncIterator[Leadership]:
    """Run a member."""
    member = Leadership(broker.settings, _CLUSTER, "test", topics=[_TOPIC])
    running = asyncio.create_task(member.run(work))
    try:
        yield member
        assert not running.done() or running.result()
    finally:
        # aiokafka leaves its first connection open if it is stopped during its start.
        await until(
            lambda: running.done() or (member._consumer and member._consumer.subscription())
        )
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)


async def until(holds: Callable[[], object]) -> None:
    async with asyncio.timeout(60):
        while not holds():
            await asyncio.sleep(0.05)


async def wait_for_growth(log: list[str]) -> None:
    """Wait until the log has grown."""
    size = len(log)
    await until(lambda: len(log) > size + 10)


def assert_alone(log: list[str]) -> None:
    """Assert that no term begins before the previous term has ended."""
    for begun, ended in zip(log[::2], log[1::2], strict=False):
        name, _, event = begun.partition(":")
        assert (event, ended) == (" begins", f"{name}: ends"), log


async def test_one_is_active_and_another_takes_over_when_it_leaves(broker: RunningBroker) -> None:
    log: list[str] = []
    first, second = _Worker("first", log), _Worker("second", log)
    async with join(broker, first) as member:
        await until(lambda: len(log) > 10)
        assert member.term is not None
        async with join(broker, second):
            await until(lambda: len(log) > 40)
    async with join(broker, second):
        await until(lambda: log[-1].startswith("second"))
    assert_alone(log)


async def test_a_term_continues_when_the_partition_is_assigned_again(
    broker: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A standby that joins or leaves does not restart the term of the active member."""
    # A rebalance of the embedded broker takes a session minus one second, so any pause of a slow
    # machine would break the term.
    monkeypatch.setattr("connectors.kafka.term.SESSION_S", 60.0)
    worker = _Worker("first", [])
    async with join(broker, worker) as member, Producer(broker.settings) as producer:
        await producer.deliver(_TOPIC, [outcome(number) for number in range(5)])
        await until(lambda: len(worker.read) == 5)
        for count in (1, 2):
            member._consumer._coordinator.request_rejoin()
            await wait_for_growth(worker.log)
            await producer.deliver(_TOPIC, [outcome(4 + count)])
            await until(lambda count=count: len(worker.read) == 5 + count)  # type: ignore[misc]
    assert worker.terms == 1
    assert worker.read == [f"command-{number:04}" for number in range(7)]


async def test_unfinished_records_are_delivered_again(broker: RunningBroker) -> None:
    log: list[str] = []
    async with Producer(broker.settings) as producer:
        await producer.deliver(_TOPIC, [outcome(number) for number in range(20)])
        worker = _Worker("first", log)
        async with join(broker, worker):
            await until(lambda: len(worker.read) == 20)
        await producer.deliver(_TOPIC, [outcome(number) for number in range(20, 30)])
        careless = _Worker("second", log, mark_done=False)
        async with join(broker, careless):
            await until(lambda: len(careless.read) == 10)
        again = _Worker("third", log)
        async with join(broker, again):
            await until(lambda: len(again.read) == 10)
    expected = [f"command-{number:04}" for number in range(30)]
    assert worker.read == expected[:20]
    assert careless.read == again.read == expected[20:]


async def test_work_that_fails_ends_the_membership_with_its_error(broker: RunningBroker) -> None:
    async def fails(term: LeaderTerm) -> None:
        async with term.writing():
            raise ZeroDivisionError("it fails")

    member = Leadership(broker.settings, _CLUSTER, "test")
    with pytest.raises(ZeroDivisionError, match="it fails"):
        await asyncio.wait_for(member.run(fails), 60)


async def test_a_leader_stops_writing_while_the_coordinator_does_not_answer(
    embedded: RunningBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("connectors.kafka.term.LEASE_S", 0.5)
    log: list[str] = []
    worker = _Worker("first", log)
    async with join(embedded, worker) as member:
        await until(lambda: len(log) > 10)
        term = member.term
        assert term is not None

        async def refuse_commit(offsets: object) -> None:
            raise TimeoutError("no answer")

        commit, term._consumer.commit = term._consumer.commit, refuse_commit
        await asyncio.sleep(0.6)
        size = len(log)
        await asyncio.sleep(1)
        assert len(log) <= size + 2
        term._consumer.commit = commit
        await until(lambda: len(log) > size + 10)


class _Answering:
    """A consumer whose commits are answered when `open` is set."""

    def __init__(self) -> None:
        self.asked, self.answers = asyncio.Event(), asyncio.Event()

    async def commit(self, offsets: object) -> None:
        self.asked.set()
        await self.answers.wait()


@pytest.mark.parametrize("later", range(4))
async def test_cancelling_a_confirmation_takes_effect_at_any_moment(later: int) -> None:
    """Otherwise a process that is ended would stay active forever."""
    consumer = _Answering()
    confirming = asyncio.create_task(LeaderTerm(consumer, 0, {}, ()).confirm())
    await consumer.asked.wait()
    consumer.answers.set()
    for _ in range(later):  # iterations of the event loop
        await asyncio.sleep(0)
    if confirming.cancel():
        with pytest.raises(asyncio.CancelledError):
            await confirming
