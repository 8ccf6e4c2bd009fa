"""Runs asynchronous Kafka clients for callers that block, such as commands.

One event loop in a thread serves the whole process.
"""

import asyncio
import logging
import threading
from collections.abc import Coroutine
from functools import cache
from typing import Any, TypeVar

T = TypeVar("T")


@cache
def event_loop() -> asyncio.AbstractEventLoop:
    """Return the loop, which runs in a thread until the process ends."""
    # Without a log, Python would print what the clients log; failures reach callers as errors.
    logging.getLogger("aiokafka").addHandler(logging.NullHandler())
    loop = asyncio.new_event_loop()
    threading.Thread(target=loop.run_forever, name="kafka", daemon=True).start()
    return loop


def wait_for(work: Coroutine[Any, Any, T]) -> T:
    """Return the result of work in the loop; an interrupt, such as Ctrl-C, cancels the work."""
    future = asyncio.run_coroutine_threadsafe(work, event_loop())
    try:
        return future.result()
    except BaseException:
        future.cancel()
        raise
