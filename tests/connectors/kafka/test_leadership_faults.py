"""Members of a group with slow, unavailable or suspended processes and brokers."""

import asyncio
import json
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator, Collection
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from aiokafka.errors import KafkaTimeoutError
from confluent_kafka.admin import NewPartitions

from connectors.brokers.server import KafkaServer
from connectors.kafka.admin import find_topics
from connectors.kafka.client import BrokerUnavailable, connect
from connectors.kafka.leadership import Leadership
from connectors.kafka.producer import Producer
from connectors.kafka.term import LOCK, LeaderTerm, TermOver
from schemas.topics.partitions import partition_for
from tests.conftest import RunningBroker, eventually
from tests.connectors.kafka.test_leadership import (
    _CLUSTER,
    _TOPIC,
    _Worker,
    assert_alone,
    join,
    outcome,
    until,
    wait_for_growth,
)

#: The shortest session timeout that a broker allows, in seconds.
_SESSION_S = 6.0


@pytest.fixture
def short_session(monkeypatch: pytest.MonkeyPatch) -> None:
    """Use the shortest session that a broker allows."""
    for module in ("leadership", "term"):
        monkeypatch.setattr(f"connectors.kafka.{module}.SESSION_S", _SESSION_S)
    monkeypatch.setattr("connectors.kafka.term.LEASE_S", _SESSION_S / 2)


@pytest.mark.slow
async def test_a_write_that_takes_longer_than_the_session_ends_before_another_begins(
    clean_kafka: RunningBroker, short_session: None
) -> None:
    log: list[str] = []
    writes = asyncio.Event()

    async def slow(term: LeaderTerm) -> None:
        with suppress(TermOver):
            async with term.writing():
                log.append("slow: begins")
                writes.set()
                await asyncio.sleep(_SESSION_S * 1.5)
                log.append("slow: ends")
        await term.over.wait()

    async with join(clean_kafka, slow):
        await writes.wait()
        async with join(clean_kafka, _Worker("second", log)):
            await until(lambda: "slow: ends" in log)
    assert_alone(log)


@pytest.mark.slow
async def test_a_slowly_ending_term_keeps_its_member_in_the_group(
    clean_kafka: RunningBroker, short_session: None
) -> None:
    """Otherwise the other member would be interrupted again."""
    members: dict[str, Leadership] = {}
    settled, ends = asyncio.Event(), asyncio.Event()

    async def end_slowly(term: LeaderTerm) -> None:
        await term.over.wait()
        await settled.wait()  # without a timeout
        await asyncio.sleep(_SESSION_S * 3)
        ends.set()

    async with join(clean_kafka, end_slowly) as members["first"]:
        await until(lambda: members["first"].term)
        # The member with the lowest id is active: rejoin until it is the other member.
        async with join(clean_kafka, end_slowly) as members["second"]:
            while not any(member.term and member.term.over.is_set() for member in members.values()):
                for member in members.values():
                    coordinator = member._consumer._coordinator
                    if member.term is not None and coordinator.generation > 0:
                        await coordinator._maybe_leave_group()  # rejoins with another id
                await asyncio.sleep(1)
            generation = await _wait_for_generation(members.values())
            settled.set()
            await asyncio.wait_for(ends.wait(), 60)
            now = {member._consumer._coordinator.generation for member in members.values()}
    assert now == {generation}


async def _wait_for_generation(members: Collection[Leadership]) -> int:
    """Wait until all members have the same generation, and return it."""
    generations: set[int] = set()
    while True:
        before = generations
        await asyncio.sleep(_SESSION_S / 3)
        generations = {member._consumer._coordinator.generation for member in members}
        if generations == before and len(generations) == 1 and max(generations) > 0:
            return generations.pop()


async def test_a_term_that_could_not_start_is_retried(broker: RunningBroker) -> None:
    """The group does not notice the failure, so no other member would take over."""
    attempts = 0

    async def begin(topic: str, partition: int) -> int:
        nonlocal attempts
        attempts += 1
        if attempts == 1:
            raise KafkaTimeoutError("no answer")
        return 0

    worker = _Worker("first", [])
    member = Leadership(broker.settings, _CLUSTER, "test", topics=[_TOPIC], begin=begin)
    running = asyncio.create_task(member.run(worker))
    try:
        await until(lambda: worker.log)
    finally:
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
    assert attempts == 2


async def test_a_term_ends_after_its_records_are_acknowledged(
    broker: RunningBroker,
) -> None:
    handed_over: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
    begun = asyncio.Event()

    async def hands_over(term: LeaderTerm) -> None:
        async with term.writing():
            term.track_write(handed_over)
        begun.set()
        await term.over.wait()

    async with join(broker, hands_over) as member:
        await begun.wait()
        assert member.term is not None
        giving_up = asyncio.create_task(member.term.suspend())
        await asyncio.sleep(1)
        assert not giving_up.done()
        handed_over.set_result(None)
        await asyncio.wait_for(giving_up, 30)


async def test_topics_with_different_numbers_of_partitions_end_the_process_with_an_error(
    clean_kafka: RunningBroker,
) -> None:
    """Otherwise the partitions of a cluster could belong to different members."""
    count = clean_kafka.settings.partitions
    connection = connect(clean_kafka.settings)
    (answer,) = connection.admin.create_partitions([NewPartitions(_TOPIC, 4 * count)]).values()
    answer.result()
    # Members that join before the broker applies the change would learn of it minutes later.
    assert eventually(lambda: find_topics(connection, [_TOPIC])[_TOPIC].partitions == 4 * count)
    # In the upper half of the partitions of its topic, in the lower half of those of the grown topic.
    cluster = next(
        name
        for name in (f"c{number}" for number in range(100))
        if partition_for(name.encode(), count) >= (count + 1) // 2
    )
    members = [Leadership(clean_kafka.settings, cluster, "test", topics=[_TOPIC]) for _ in range(2)]
    running = [asyncio.create_task(member.run(_Worker("w", []))) for member in members]
    await asyncio.wait(running, timeout=60, return_when=asyncio.FIRST_COMPLETED)
    for task in running:
        task.cancel()
    ended = await asyncio.gather(*running, return_exceptions=True)
    (error,) = (result for result in ended if isinstance(result, Exception))
    assert isinstance(error, BrokerUnavailable)
    assert f"of {_TOPIC} is assigned to another member" in str(error)
    assert f"of {LOCK} to this process" in str(error)


#: A member in a separate process. It writes lines and suspends itself after some
#: lines, never during a write, which it could complete after it resumes.
_CHILD = """
    import asyncio, json, os, signal, sys
    from connectors.kafka import leadership, term
    from schemas.settings.connection import KafkaSettings

    address, path, session_s = sys.argv[1], sys.argv[2], float(sys.argv[3])
    leadership.SESSION_S = term.SESSION_S = session_s
    term.LEASE_S = session_s / 2
    terms = written = 0

    async def work(turn_):
        global terms, written
        terms += 1
        with open(path, "a", buffering=1) as out:
            try:
                while True:
                    async with turn_.writing():
                        out.write(json.dumps(["child", terms]) + chr(10))
                    written += 1
                    if written == 100:
                        os.kill(os.getpid(), signal.SIGSTOP)
                    await asyncio.sleep(0.01)
            except term.TermOver:
                pass

    settings = KafkaSettings.local(address).model_copy(update={"client_id": sys.argv[4]})
    asyncio.run(leadership.Leadership(settings, "c1", "test").run(work))
"""


@asynccontextmanager
async def _child(
    broker: RunningBroker, path: Path, client_id: str
) -> AsyncIterator[asyncio.subprocess.Process]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", textwrap.dedent(_CHILD),
        broker.bootstrap_servers, str(path), str(_SESSION_S), client_id,
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        await process.wait()


def _lines(path: Path) -> list[list[Any]]:
    """Return the complete lines; the last line may be incomplete."""
    return [json.loads(line) for line in path.read_text("utf-8").split("\n")[:-1]]


def _is_suspended(process: asyncio.subprocess.Process) -> bool:
    state = Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0]
    return state == "T"


@pytest.mark.slow
@pytest.mark.parametrize("client_id", ["a", "z"])
async def test_a_suspended_process_writes_nothing_after_a_takeover(
    clean_kafka: RunningBroker, short_session: None, tmp_path: Path, client_id: str
) -> None:
    """The member with the lowest id is active, so "a" gets the partition back when it resumes."""
    path = tmp_path / "written"

    async def parent(term: LeaderTerm) -> None:
        with path.open("a", buffering=1, encoding="utf-8") as out, suppress(TermOver):
            while True:
                async with term.writing():
                    out.write(json.dumps(["parent", 1]) + "\n")
                await asyncio.sleep(0.01)

    async with _child(clean_kafka, path, client_id) as child:
        await until(lambda: _is_suspended(child))
        *_, (_, term) = _lines(path)
        member = Leadership(clean_kafka.settings, _CLUSTER, "test")
        running = asyncio.create_task(member.run(parent))
        await until(lambda: _lines(path)[-1][0] == "parent")
        os.kill(child.pid, signal.SIGCONT)
        await asyncio.sleep(_SESSION_S)
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        await until(lambda: max(of for name, of in _lines(path) if name == "child") > term)
    written = _lines(path)
    begun = written.index(["parent", 1])
    assert {name for name, _ in written[:begun]} == {"child"}
    assert ["child", term] not in written[begun:]


@pytest.mark.slow
async def test_a_restart_of_the_broker_loses_nothing(
    kafka: KafkaServer, clean_kafka: RunningBroker
) -> None:
    worker = _Worker("first", [])
    async with join(clean_kafka, worker), Producer(clean_kafka.settings) as producer:
        await producer.deliver(_TOPIC, [outcome(number) for number in range(5)])
        await until(lambda: len(worker.read) == 5)
        await asyncio.to_thread(kafka.members[0].kill)
        sending = asyncio.create_task(
            producer.deliver(_TOPIC, [outcome(number) for number in range(5, 10)])
        )
        await asyncio.sleep(12)  # longer than the session
        size = len(worker.log)
        await asyncio.sleep(1)
        assert len(worker.log) == size  # no commit is confirmed
        await asyncio.to_thread(kafka.start_broker)
        await sending
        await until(lambda: len(set(worker.read)) == 10)
        await wait_for_growth(worker.log)
    assert sorted(set(worker.read)) == [f"command-{number:04}" for number in range(10)]
