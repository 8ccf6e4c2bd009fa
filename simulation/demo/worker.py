"""One `loadstream worker` in a process of its own, which never outlives the demo.

A guard (`connectors.process.child_process`) ends it with the demo, however that ends.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Self

from connectors.process.child_process import Guard, Startable

#: A worker that does not end within this time is killed.
_STOP_TIMEOUT_S = 8.0
_LOG_LINES = 15


class WorkerDied(RuntimeError):
    """The worker has ended by itself; the message holds the last lines of its log."""


class WorkerProcess(Startable):
    """The process; its output goes to a file."""

    def __init__(self, settings: Mapping[str, str], log: Path) -> None:
        """`settings` are environment variables; the caller's own broker and worker are left out."""
        self.log = log
        self._settings = dict(settings)
        self._process: subprocess.Popen[bytes] | None = None
        self._guard: Guard | None = None

    def start(self) -> Self:
        """Begin the process; that it works, its answers say."""
        environment = {
            name: value
            for name, value in os.environ.items()
            if not name.upper().startswith(("LOADSTREAM_KAFKA_", "LOADSTREAM_WORKER_"))
        }
        command = [sys.executable, "-m", "loadstream", "worker"]
        with self.log.open("wb") as log:
            # A session of its own: Ctrl-C reaches the demo, which ends the worker in order.
            self._process = subprocess.Popen(  # noqa: S603 - our own command
                command,
                env={**environment, **self._settings},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._guard = Guard(self._process)
        return self

    def stop(self) -> None:
        """End it in order, or kill it where that takes too long."""
        process, guard = self._process, self._guard
        if process is not None and process.poll() is None:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if guard is not None:
            guard.dismiss()

    @property
    def pid(self) -> int:
        """Id of the process."""
        if self._process is None:
            raise RuntimeError("the worker was not started; use `with`")
        return self._process.pid

    def check(self) -> None:
        """Raises WorkerDied where the process has ended."""
        code = self._process.poll() if self._process is not None else None
        if code is not None:
            raise WorkerDied(f"the worker has ended with exit code {code}; {self.last_words()}")

    def last_words(self) -> str:
        """The end of its log."""
        lines = self.log.read_text(errors="replace").splitlines() if self.log.exists() else []
        said = "\n".join(f"    {line}" for line in lines[-_LOG_LINES:])
        return f"its log {self.log} ends with:\n{said}" if said else f"its log {self.log} is empty"
