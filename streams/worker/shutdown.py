"""Faust's worker, with an end that comes in any case.

Asked to stop, a worker makes durable what it has applied, writes its rows and leaves its group. For
all of that it needs brokers, and while none answers Faust and its clients wait for them, each in
its own way and some for ever. So a separate thread ends the process when its time is up. Nothing is
lost by that: what is not in the journal was not published, and the next owner redoes the rest, as
after any crash.

A worker that has failed has nothing to make durable. It leaves its group, which may hang if the
group has removed it, so it is given less time: the worker that starts in its place serves its
partitions better.
"""

import logging
import os
import signal
import threading
from typing import Any

import faust

logger = logging.getLogger(__name__)

#: Exit code of a process that was ended before it was done.
EXIT_UNFINISHED = 1
#: Time for the end of a worker that has failed, in seconds, or less where settings say so.
FAILED_STOP_S = 10.0


def say_failure(app: Any) -> bool:
    """Log why the worker has failed, as the last line, where readers look first; whether it has."""
    reason = app.crash_reason
    if reason is None:
        return False
    logger.critical("the worker was stopped by %s: %s", type(reason).__name__, reason)
    return True


class PromptWorker(faust.Worker):
    """A worker that has ended so long after it was asked to."""

    def __init__(self, app: Any, stop_timeout_s: float) -> None:
        super().__init__(app, override_logging=False, quiet=True)
        self.spinner = None  # it would write between the lines of the log
        self._stop_timeout_s = stop_timeout_s
        self._deadline: threading.Timer | None = None

    def _schedule_shutdown(self, signal: signal.Signals) -> None:
        """SIGTERM or SIGINT."""
        self._limit_end(self._stop_timeout_s)
        super()._schedule_shutdown(signal)

    def on_worker_shutdown(self) -> None:
        """The worker ends, whether it was asked to or has crashed."""
        self._limit_end(
            min(self._stop_timeout_s, FAILED_STOP_S) if self._failed else self._stop_timeout_s
        )
        super().on_worker_shutdown()

    @property
    def _failed(self) -> bool:
        return self.app.crash_reason is not None

    def _limit_end(self, seconds: float) -> None:
        if self._deadline is None:
            self._deadline = threading.Timer(seconds, self._end, (seconds,))
            self._deadline.daemon = True
            self._deadline.start()

    def _end(self, seconds: float) -> None:
        asked = "being asked to: no broker answers, or one is slow"
        logger.critical(
            "still not stopped %.0f s after %s. The process ends now; what it had not written is "
            "redone by the next owner of its partitions",
            seconds,
            "it has failed" if self._failed else asked,
        )
        say_failure(self.app)
        logging.shutdown()
        os._exit(EXIT_UNFINISHED)
