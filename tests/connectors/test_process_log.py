"""What aiokafka says while no broker can be reached."""

import asyncio
import logging
from collections.abc import Iterator

import pytest
from aiokafka.errors import (
    KafkaConnectionError,
    TopicAuthorizationFailedError,
    UnknownTopicOrPartitionError,
)

from connectors.kafka import membership
from connectors.kafka.membership import Membership
from connectors.process_log import QUIET_S, FirstOfKind
from schemas.connection import KafkaSettings
from tests.connectors.kubernetes.sources.harness import until


class _Clock(asyncio.SelectorEventLoop):
    """An event loop whose time goes on only where a test lets it: a slow machine changes nothing."""

    def __init__(self) -> None:
        self._now_s = 0.0
        super().__init__()

    def time(self) -> float:
        return self._now_s

    async def pass_by(self, seconds: float) -> None:
        """Let time go on, and all that is due then happen."""
        self._now_s += seconds
        await asyncio.sleep(0)  # the loop looks for what is due
        await asyncio.sleep(0)  # and has done it


class _Lines(logging.Handler):
    """Keeps what it is to write."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []
        self.addFilter(FirstOfKind())

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@pytest.fixture
def lines() -> Iterator[list[str]]:
    handler = _Lines()
    logging.root.addHandler(handler)
    logging.getLogger("connectors").setLevel(logging.INFO)
    yield handler.lines
    logging.root.removeHandler(handler)
    logging.getLogger("connectors").setLevel(logging.NOTSET)


def _complain() -> None:
    """As an outage does."""
    log = logging.getLogger("aiokafka.consumer.fetcher")
    log.error("Failed fetch messages from %s: %s", 1, KafkaConnectionError("closed"))
    log.error("Unable to update metadata from %s", [1])
    log.error("Unable connect to node with id %s: %s", 1, ConnectionRefusedError(111, "refused"))


def test_an_outage_is_one_line_when_it_begins_and_one_when_it_is_over(lines: list[str]) -> None:
    clock = _Clock()

    async def lives_through_outages() -> None:
        for outage in (1, 2):
            for _ in range(10):
                _complain()
                await clock.pass_by(QUIET_S * 0.9)
            assert len(lines) == 2 * outage - 1
            await clock.pass_by(QUIET_S * 0.2)
            assert len(lines) == 2 * outage

    with asyncio.Runner(loop_factory=lambda: clock) as runner:
        runner.run(lives_through_outages())
    for first, last in (lines[:2], lines[2:]):
        assert first.startswith("Failed fetch messages from 1: KafkaConnectionError: closed; until")
        assert last.endswith("no connection has failed for 10 s; 29 lines were left out")


async def test_what_else_goes_wrong_meanwhile_is_said_once_of_each_kind(lines: list[str]) -> None:
    log = logging.getLogger("aiokafka.producer.sender")
    for _ in range(3):
        _complain()
        log.error("Topic %s is not authorized", TopicAuthorizationFailedError())
        log.error("Failed fetch messages from %s: %s", 1, UnknownTopicOrPartitionError())
        logging.getLogger("connectors.kafka").error("our own words")
    assert [line.partition(":")[0] for line in lines] == [
        "Failed fetch messages from 1",
        "Topic [Error 29] TopicAuthorizationFailedError is not authorized",
        "Failed fetch messages from 1",
        *["our own words"] * 3,
    ]


async def test_a_member_that_cannot_join_again_says_why_once(
    lines: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(membership, "REJOIN_S", 0.01)
    member = Membership(KafkaSettings(bootstrap_servers="127.0.0.1:9"), "c", "bind")
    tried: list[object] = []
    stay = member._stay

    async def counted() -> None:
        tried.append(None)
        await stay()

    monkeypatch.setattr(member, "_stay", counted)

    async def work(turn: object) -> None:
        """Never called."""

    running = asyncio.create_task(member.run(work))
    await until(lambda: len(tried) >= 4)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert len([line for line in lines if "left the group" in line]) == 1
