"""A server that we run as a child process: started, asked to stop, killed, started again.

A guard beside it kills it when the process that started it is gone, however that ended. Its log
keeps what earlier runs of it wrote; what it has said since it was launched is read by itself.
"""

import signal
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from connectors.guard import Guard

_STOP_TIMEOUT_S = 30.0


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
