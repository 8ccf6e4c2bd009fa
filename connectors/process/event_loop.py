"""Run asynchronous work in uvloop and close the loop properly.

uvloop cannot close a loop while a connection is being opened or closed, for example a connection that
was cancelled just before. So connections get a moment to finish. If that is not enough, the loop is
not closed, which does no harm because the process ends.
"""

import asyncio
import logging
from collections.abc import Awaitable
from typing import TypeVar

import uvloop

logger = logging.getLogger(__name__)

T = TypeVar("T")

#: Time for connections to close after the work, in seconds.
CLOSING_S = 0.25


def run(work: Awaitable[T]) -> T:
    """Run the work and return its result; raises its exceptions, and KeyboardInterrupt at Ctrl-C."""
    runner = asyncio.Runner(loop_factory=uvloop.new_event_loop)
    try:
        return runner.run(_finish(work))
    finally:
        try:
            runner.close()
        except OSError as error:
            logger.debug("the event loop was not closed: %s", error)


async def _finish(work: Awaitable[T]) -> T:
    try:
        return await work
    finally:
        await asyncio.sleep(CLOSING_S)
