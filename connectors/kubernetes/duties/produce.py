"""Send messages of a watch or of usage sources while this process is active.

Each message is handed over with the permission of the term, in order. The source is not read further
while too many messages wait for their acknowledgement. The term ends only after all messages are
acknowledged, so no message arrives after messages of the next active process. A message that no reader
would accept is logged and skipped.
"""

import logging
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress

from connectors.kafka.producer import Producer, RecordTooLong
from connectors.kafka.term import LeaderTerm, TermOver
from connectors.queries.wording import sentence
from schemas.base.message import Message

logger = logging.getLogger(__name__)

#: Longest description of a message in the log.
_SENTENCE_CHARS_MAX = 200

#: Topics and messages, forever.
Messages = AsyncGenerator[tuple[str, Message], None]


class MessageProducer:
    """The work of a watch or a collector during one term."""

    def __init__(self, producer: Producer, messages: Callable[[], Messages]) -> None:
        """`messages` is called once per term, which begins with a full list."""
        self._producer = producer
        self._messages = messages

    async def __call__(self, term: LeaderTerm) -> None:
        """Send until the term is over; raises exceptions of the source, and BrokerUnavailable."""
        await term.run_during(self._send(term))

    async def _send(self, term: LeaderTerm) -> None:
        with suppress(TermOver):
            async with aclosing(self._messages()) as messages:
                async for topic, message in messages:
                    async with term.writing():
                        try:
                            term.track_write(await self._producer.send(topic, message))
                        except RecordTooLong as error:
                            logger.warning(
                                "skipped: %s: %s", error, sentence(message)[:_SENTENCE_CHARS_MAX]
                            )
