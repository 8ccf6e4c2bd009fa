"""Sends what a watch or usage sources say, as long as this process is the active one.

Each message is handed over under permission, in the order in which it comes. The source is not
asked on while too many wait for their acknowledgement: what cannot be sent stays where it came
from. The term is not given up before what was handed over is acknowledged, so nothing of it comes
after what the next active process sends. A message that no reader would take is named in the log
and left out.
"""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress

from connectors.kafka.outbox import Outbox, RecordTooLong
from connectors.kafka.term import LeaderTerm, TermOver
from connectors.queries.wording import sentence
from schemas.base.message import Message

logger = logging.getLogger(__name__)

#: Longest part of a message's sentence in the log.
_SENTENCE_CHARS_MAX = 200

#: Topics and messages, for ever.
Messages = AsyncGenerator[tuple[str, Message], None]


class Produce:
    """The work of a watch or a collector during one term."""

    def __init__(self, outbox: Outbox, messages: Callable[[], Messages]) -> None:
        """`messages` is called once for each term, which begins with a full list."""
        self.left_out = 0
        """Messages that no reader would take."""
        self._outbox = outbox
        self._messages = messages

    async def __call__(self, term: LeaderTerm) -> None:
        """Send until the term is over; raises what the source raises, and BrokerUnavailable."""
        await term.during(self._send(term))

    async def _send(self, term: LeaderTerm) -> None:
        with suppress(TermOver):
            async with aclosing(self._messages()) as messages:
                async for topic, message in messages:
                    async with term.writing():
                        try:
                            term.under_way(await self._outbox.send(topic, message))
                        except RecordTooLong as error:
                            self.left_out += 1
                            logger.warning(
                                "left out: %s: %s", error, sentence(message)[:_SENTENCE_CHARS_MAX]
                            )
