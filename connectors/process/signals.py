"""Stop a process at SIGTERM or Ctrl-C."""

import asyncio
import logging
import os
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from threading import Timer
from types import FrameType
from typing import Any

from connectors.process.terminal import echo

logger = logging.getLogger(__name__)

_RETRY_S = 0.05
#: Modules that import modules or build classes, during which exceptions are ignored.
_IMPORTING = ("importlib._bootstrap", "pydantic._internal", "pydantic.plugin")


@contextmanager
def terminable(code: int = 0) -> Iterator[None]:
    """Let SIGTERM end the block as Ctrl-C does, and then exit with `code`."""
    stopped_by: int | None = None

    def stop(number: int, frame: FrameType | None) -> None:
        nonlocal stopped_by
        stopped_by = number
        if _is_importing(frame):
            # An ignored interrupt would be lost, and pydantic would continue with a wrong class.
            Timer(_RETRY_S, os.kill, (os.getpid(), number)).start()
        else:
            raise KeyboardInterrupt

    earlier_handler = signal.signal(signal.SIGTERM, stop)
    handles_interrupts = signal.getsignal(signal.SIGINT) is not signal.SIG_IGN
    if handles_interrupts:
        signal.signal(signal.SIGINT, stop)
    try:
        yield
    except BaseException as error:
        # Not KeyboardInterrupt alone: a library may have replaced it.
        if stopped_by is None:
            raise
        if stopped_by == signal.SIGINT:
            raise KeyboardInterrupt from error
        echo("stopped by SIGTERM", err=True)
        raise SystemExit(code) from None
    finally:
        signal.signal(signal.SIGTERM, earlier_handler)
        if handles_interrupts:
            signal.signal(signal.SIGINT, signal.default_int_handler)


def _is_importing(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith(_IMPORTING):
            return True
        frame = frame.f_back
    return False


async def run_until_stopped(work: Coroutine[Any, Any, None]) -> None:
    """Run asynchronous work until it ends, or cancel it at SIGTERM or SIGINT.

    Raises the exception of the work, or the first exception of an exception group.
    """
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()

    def stop(number: signal.Signals) -> None:
        logger.info("stopped by %s", number.name)
        stopped.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop, number)
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
