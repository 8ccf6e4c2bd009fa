"""Faust's worker, with an end that comes in any case.

Asked to stop, a worker makes durable what it has applied, writes its rows and leaves its group. For
all of that it needs brokers, and while none answers Faust and its clients wait for them, each in
its own way and some for ever. So a thread of its own ends the process when its time is up. Nothing
is lost by that: what is not in the journal was reported to nobody, and the next owner redoes the
rest, as after any crash.
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


class PromptWorker(faust.Worker):
    """A worker that has ended so long after it was asked to."""

    def __init__(self, app: Any, stop_timeout_s: float) -> None:
        super().__init__(app, override_logging=False, quiet=True)
        self.spinner = None  # it would write between the lines of the log
        self._stop_timeout_s = stop_timeout_s
        self._deadline: threading.Timer | None = None

    def _schedule_shutdown(self, signal: signal.Signals) -> None:
        """SIGTERM or SIGINT."""
        self._limit_end()
        super()._schedule_shutdown(signal)

    def on_worker_shutdown(self) -> None:
        """The worker ends, whether it was asked to or has crashed."""
        self._limit_end()
        super().on_worker_shutdown()

    def _limit_end(self) -> None:
        if self._deadline is None:
            self._deadline = threading.Timer(self._stop_timeout_s, self._end)
            self._deadline.daemon = True
            self._deadline.start()

    def _end(self) -> None:
        logger.critical(
            "still not stopped %.0f s after being asked to: no broker answers, or one is slow. The process ends "
            "now; what it had not written is redone by the next owner of its partitions",
            self._stop_timeout_s,
        )
        logging.shutdown()
        os._exit(EXIT_UNFINISHED)
