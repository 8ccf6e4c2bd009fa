"""How a process ends when it is asked to, by SIGTERM or Ctrl-C."""

import asyncio
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def terminable() -> Iterator[None]:
    """Let SIGTERM raise KeyboardInterrupt, as Ctrl-C does, so that all that was started is ended."""
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


async def run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run asynchronous work until it ends, or cancel it at SIGTERM or SIGINT.

    Raises what the work raises; where its tasks have gathered errors in groups, the first one.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    running = asyncio.create_task(work)
    stopping = asyncio.create_task(stopped.wait())
    try:
        await asyncio.wait((running, stopping), return_when=asyncio.FIRST_COMPLETED)
    finally:
        stopping.cancel()
        running.cancel()
        (outcome,) = await asyncio.gather(running, return_exceptions=True)
    if isinstance(outcome, Exception):
        raise _find_first(outcome)


def _find_first(error: Exception) -> Exception:
    while isinstance(error, ExceptionGroup):
        error = error.exceptions[0]
    return error
