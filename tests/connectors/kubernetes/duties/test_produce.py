"""Messages of a source are sent during the term of this process."""

import asyncio
import logging

import pytest

from connectors.kafka.leadership import Leadership
from connectors.kafka.producer import Producer
from connectors.kubernetes.duties.produce import Messages, send_messages
from tests.conftest import RunningBroker
from tests.connectors.kafka.test_leadership import outcome, until
from tests.connectors.kafka.test_producer import ids, too_long

_TOPIC = "command-outcomes"


class _Source:
    """Yields some messages and counts how often it was opened and closed."""

    def __init__(self, *, error: Exception | None = None) -> None:
        self.opened = self.closed = 0
        self.error = error

    async def messages(self) -> Messages:
        self.opened += 1
        try:
            yield _TOPIC, outcome(self.opened)
            yield "node-state", too_long()
            yield _TOPIC, outcome(10 * self.opened)
            if self.error is not None:
                raise self.error
            await asyncio.Event().wait()
        finally:
            self.closed += 1


async def test_each_term_starts_with_a_full_list_and_closes_its_source(
    embedded: RunningBroker, caplog: pytest.LogCaptureFixture
) -> None:
    source = _Source()
    async with Producer(embedded.settings) as producer:
        for term in (1, 2):
            member = Leadership(embedded.settings, "c1", "watch")
            with caplog.at_level(logging.WARNING):
                running = asyncio.create_task(
                    member.run(lambda term: send_messages(producer, source.messages(), term))
                )
                await until(lambda term=term: producer.sent == 2 * term)  # type: ignore[misc]
                running.cancel()
                await asyncio.gather(running, return_exceptions=True)
            assert (source.opened, source.closed) == (term, term)
    assert await ids(embedded) == ["command-0001", "command-0010", "command-0002", "command-0020"]
    assert "skipped: topic node-state" in caplog.text
    assert "n1" in caplog.text
