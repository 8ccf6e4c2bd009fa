"""Servers that we run as child processes, and files that are made once for them.

A guard ends a child process when its parent is gone, for any reason: it reads a pipe whose other end
only the parent holds. If the pipe ends without a word, the parent has died, and the guard kills the
child. (The kernel would send a death signal at the end of the starting *thread*.)
"""

import fcntl
import signal
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Self

_STOP_TIMEOUT_S = 30.0


def made_once(path: Path, make: Callable[[Path], None]) -> Path:
    """The path, made first if it is not there yet.

    Args:
        path: a file or directory; a lock beside it keeps others waiting.
        make: makes it, the path itself as the last step: what is there is complete.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.with_suffix(".lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not path.exists():
                make(path)
    return path


class Startable(ABC):
    """A context manager, or `start` and `stop`."""

    @abstractmethod
    def start(self) -> Self:
        """Run from now on."""

    @abstractmethod
    def stop(self) -> None:
        """Run no more; nothing is left running."""

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()


class Guard:
    """Watches over one child process until it is dismissed."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._shell = subprocess.Popen(  # noqa: S603 - a constant script and a process id
            ["/bin/sh", "-c", 'read -r word || kill -9 "$0"', str(process.pid)],
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            # A session of its own: Ctrl-C reaches the starter alone.
            start_new_session=True,
        )

    def dismiss(self) -> None:
        """The child has ended: its id may be reused, so the end of the pipe must mean nothing now."""
        self._shell.communicate(b"done\n")


@dataclass(slots=True)
class ChildProcess:
    """One server: its directory and, while it runs, its process. Subclasses say its command."""

    directory: Path
    """Where it runs; it exists before the launch."""
    ended_with: int | None = field(default=None, init=False)
    """Status of the process that ended last, as it was waited for; negative: the signal that ended it.
    None: none has ended yet."""
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)
    _guard: Guard | None = field(default=None, init=False)
    _log_begins: int = field(default=0, init=False)

    def command(self) -> list[str]:
        """The program and its arguments."""
        raise NotImplementedError

    @property
    def launched(self) -> bool:
        """Whether it was launched and not ended by us since; its process may have died."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """Id of its process; None if none is alive."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def log(self) -> Path:
        """File that it writes its log to."""
        return self.directory / "log"

    def output(self) -> str:
        """What it has written to its log since it was launched."""
        if not self.log.exists():
            return ""
        with self.log.open("rb") as log:
            log.seek(self._log_begins)
            return log.read().decode(errors="replace")

    def launch(self) -> None:
        """Start the process and its guard; returns before it answers."""
        with self.log.open("ab") as log:
            self._log_begins = log.tell()
            # A session of its own: Ctrl-C reaches us, and we stop servers in order.
            self._process = subprocess.Popen(  # noqa: S603 - made of our own paths
                self.command(),
                cwd=self.directory,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._guard = Guard(self._process)

    def ask_to_stop(self) -> None:
        """Ask it to end cleanly, without waiting for it."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)

    def wait_for_end(self, timeout_s: float = _STOP_TIMEOUT_S) -> None:
        """Wait for the end of its process; it is killed when the time is over."""
        if self._process is not None:
            try:
                self._process.wait(timeout=timeout_s)
            except subprocess.TimeoutExpired:
                self.kill()
        self._dismiss()

    def kill(self) -> None:
        """End it at once (SIGKILL), as a crash would."""
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
