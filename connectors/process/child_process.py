"""Run servers as child processes that end with their parent.

A guard kills a child process when its parent is gone for any reason. The guard reads a pipe whose
other end only the parent holds; if the pipe is closed without a message, the parent has died. (The
kernel's parent-death signal is no alternative: it is sent when the starting *thread* ends.)
"""

import fcntl
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self

_STOP_TIMEOUT_S = 30.0
#: Number of lines of a log that an error message shows.
_LOG_LINES = 15


def create_once(path: Path, make: Callable[[Path], None]) -> Path:
    """Return the path, and create it first if it does not exist.

    Args:
        path: a file or directory; a lock file next to it makes other processes wait.
        make: creates it. Its last step must move the complete result to `path`.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                make(path)
    return path


class Startable(ABC):
    """A server with `start` and `stop`; also a context manager."""

    @abstractmethod
    def start(self) -> Self: ...

    @abstractmethod
    def stop(self) -> None: ...

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


class Guard:
    """Kills one child process when this process is gone."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._shell = subprocess.Popen(  # noqa: S603 - a constant script and a process id
            ["/bin/sh", "-c", 'read -r word || kill -9 "$0"', str(process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # A separate session, so that Ctrl-C reaches only this process.
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """End the guard after the child has ended, because the child's process id may be reused."""
        self._shell.communicate(b"done\n")


@dataclass(slots=True)
class ChildProcess:
    """One server: its directory and, while it runs, its process. Subclasses define its command."""

    directory: Path
    """Working directory; must exist before the launch."""
    ended_with: int | None = field(default=None, init=False)
    """Exit status of the last ended process; negative: the signal that ended it."""
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _guard: Guard | None = field(default=None, init=False)
    _log_start: int = field(default=0, init=False)

    def command(self) -> list[str]:
        """Return the program and its arguments."""
        raise NotImplementedError

    @property
    def launched(self) -> bool:
        """Whether it was launched and not stopped by us; its process may have died."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """Process id; None if the process is not running."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def log(self) -> Path:
        return self.directory / "log"

    def output(self) -> str:
        """Return the output since the last launch."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(self._log_start)
            return log.read().decode(errors="replace")

    def describe_log(self) -> str:
        """Return the end of the output since the last launch, for an error message."""
        lines = self.output().strip().splitlines()[-_LOG_LINES:]
        return "\n".join([f"its log {self.log} ends with:", *lines])

    def launch(self) -> None:
        """Start the process and its guard, without waiting until it is ready."""
        with self.log.open("ab") as log:
            self._log_start = log.tell()
            # A separate session: Ctrl-C reaches only us, and we stop the servers in order.
            self._process = subprocess.Popen(  # noqa: S603 - built from our own paths
                self.command(),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._guard = Guard(self._process)

    def ask_to_stop(self) -> None:
        """Send SIGTERM without waiting for the end."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def wait_for_end(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """Wait for the end of the process, and kill it after the timeout."""
        if self._process is not None:
            try:
                self._process.wait(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
        self._dismiss()

    def kill(self) -> None:
        """Kill the process (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._dismiss()

    def _dismiss(self) -> None:
        if self._process is not None:
            self.ended_with = self._process.returncode
        self._process = None
        if self._guard is not None:
            self._guard.dismiss()
            self._guard = None
