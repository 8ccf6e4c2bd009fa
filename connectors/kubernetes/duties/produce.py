"""Sends what a watch or usage sources say, as long as this process is the active one.

Each message is handed over under permission, in the order in which it comes. The source is not asked
on while too many wait for their acknowledgement: what cannot be sent stays where it came from.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing, suppress

from connectors.kafka.membership import Turn, TurnOver
from connectors.kafka.outbox import Outbox
from schemas.base import Message

#: Topics and messages, for ever.
Messages = AsyncGenerator[tuple[str, Message], None]


class Produce:
    """The work of a watch or a collector during one turn."""

    def __init__(self, outbox: Outbox, messages: Callable[[], Messages]) -> None:
        """`messages` is called anew for each turn: a turn begins with all that there is."""
        self._outbox = outbox
        self._messages = messages

    async def __call__(self, turn: Turn) -> None:
        """Send until the turn is over; raises what the source raises, and BrokerUnavailable."""
        sending = asyncio.create_task(self._send(turn))
        over = asyncio.create_task(turn.over.wait())
        try:
            await asyncio.wait((sending, over), return_when=asyncio.FIRST_COMPLETED)
        finally:
            over.cancel()
            if not sending.done():
                sending.cancel()
                with suppress(asyncio.CancelledError):
                    await sending
        if sending.done() and not sending.cancelled():
            sending.result()

    async def _send(self, turn: Turn) -> None:
        with suppress(TurnOver):
            async with aclosing(self._messages()) as messages:
                async for topic, message in messages:
                    async with turn.writing():
                        await self._outbox.send(topic, message)
