"""Runs a process's work in the event loop that its duties are made for, uvloop's, and ends it well.

uvloop refuses to close a loop in which a connection is still being made or closed, such as one
whose making was cancelled a moment ago. Connections are given that moment; if one needs longer, the
loop is left as it is: the process ends, and nothing is lost by it.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

import uvloop

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: What connections are given to be closed after the work, in seconds.
CLOSING_S = 0.25


def run(work: Awaitable[T]) -> T:
    """The result of the work; raises what it raises, KeyboardInterrupt at Ctrl-C among it."""
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    try:
        return runner.run(_closed(work))
    finally:
        try:
            runner.close()
        except OSError as error:
            logger.debug("the event loop was not closed: %s", error)


async def _closed(work: Awaitable[T]) -> T:
    try:
        return await work
    finally:
        await asyncio.sleep(CLOSING_S)
