"""Faust's worker with a limited time to stop.

At a stop, a worker makes its results durable, writes its rows and leaves its group. If no broker answers,
Faust and its clients wait, some of them forever. So a separate thread ends the process after a timeout.
Nothing is lost: results that are not in the journal were not published, and the next owner applies their
records again.

A failed worker only leaves its group, which can hang, too. A failed worker gets less time, because another
worker takes over its partitions.
"""

import asyncio
import logging
import os
import signal
import threading
from typing import Any

import faust
from faust.tables.recovery import ServiceStopped

logger = logging.getLogger(__name__)

#: Exit code of a process that was ended by the timeout.
EXIT_UNFINISHED = 1
#: Longest time to stop a failed worker, in seconds.
FAILED_STOP_S = 10.0


def log_failure(app: Any) -> bool:
    """Tell whether the worker has failed; if so, log the reason as the last line of the log."""
    reason = app.crash_reason
    if reason is None:
        return False
    logger.critical("the worker was stopped by %s: %s", type(reason).__name__, reason)
    return True


def handle_loop_exception(loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
    """Log an unhandled exception, except the one with which Faust ends a recovery at a stop."""
    if not isinstance(context.get("exception"), ServiceStopped):
        loop.default_exception_handler(context)


class DeadlineWorker(faust.Worker):
    def __init__(self, app: Any, stop_timeout_s: float) -> None:
        super().__init__(app, override_logging=False, quiet=True)
        self.spinner = None  # it would write into the log
        self._stop_timeout_s = stop_timeout_s
        self._deadline: threading.Timer | None = None

    async def on_first_start(self) -> None:
        asyncio.get_running_loop().set_exception_handler(handle_loop_exception)
        await super().on_first_start()

    def _schedule_shutdown(self, signal: signal.Signals) -> None:
        self._start_deadline(self._stop_timeout_s)
        super()._schedule_shutdown(signal)

    def on_worker_shutdown(self) -> None:
        self._start_deadline(
            min(self._stop_timeout_s, FAILED_STOP_S) if self._has_failed else self._stop_timeout_s
        )
        super().on_worker_shutdown()

    @property
    def _has_failed(self) -> bool:
        return self.app.crash_reason is not None

    def _start_deadline(self, seconds: float) -> None:
        if self._deadline is None:
            self._deadline = threading.Timer(seconds, self._end_process, (seconds,))
            self._deadline.daemon = True
            self._deadline.start()

    def _end_process(self, seconds: float) -> None:
        logger.critical(
            "the worker has not stopped within %.0f s after %s; the process ends now. The next owner of its "
            "partitions applies the unwritten records again",
            seconds,
            "its failure"
            if self._has_failed
            else "the signal, because a broker does not answer or is slow",
        )
        log_failure(self.app)
        logging.shutdown()
        os._exit(EXIT_UNFINISHED)
