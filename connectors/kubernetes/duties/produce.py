"""Send messages of a watch or of usage sources while this process is active.

Each message is handed over with the permission of the term, in order. The source is not read further
while too many messages wait for their acknowledgement. The term ends only after all messages are
acknowledged, so no message arrives after messages of the next active process. A message that no reader
would accept is logged and skipped.
"""

import logging
from collections.abc import AsyncGenerator
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


async def send_messages(producer: Producer, messages: Messages, term: LeaderTerm) -> None:
    """Send until the term is over; raises exceptions of the source, and BrokerUnavailable."""
    await term.run_during(_send(producer, messages, term))


async def _send(producer: Producer, source: Messages, term: LeaderTerm) -> None:
    with suppress(TermOver):
        async with aclosing(source) as messages:
            async for topic, message in messages:
                async with term.writing():
                    try:
                        term.track_write(await producer.send(topic, message))
                    except RecordTooLong as error:
                        shown = sentence(message)[:_SENTENCE_CHARS_MAX]
                        logger.warning("skipped: %s: %s", error, shown)
