"""One broker's Java process."""

import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from connectors.brokers.distribution import LOG_CONFIGURATION, fetch_jars
from connectors.guard import Guard

_STOP_TIMEOUT_S = 30.0


def java(*options: str) -> list[str]:
    """Beginning of a command that runs one of Kafka's classes."""
    log = f"-Dlog4j2.configurationFile={LOG_CONFIGURATION}"
    return ["java", "-XX:+UseSerialGC", *options, log, "-cp", f"{fetch_jars()}/*"]


def complaint(output: str) -> str:
    """The lines of a Java program's output that name errors; if there are none, the last ones."""
    lines = [line for line in output.strip().splitlines() if not line.startswith("\tat ")]
    errors = [line for line in lines if "ERROR" in line or "Exception" in line]
    return "\n".join((errors or lines)[-10:])


@dataclass(slots=True)
class Broker:
    """One broker: its ports, its directory and, while it runs, its process."""

    number: int
    directory: Path
    ports: dict[str, int]
    """Port of each listener."""
    _process: subprocess.Popen[bytes] | None = None
    _guard: Guard | None = None

    @property
    def launched(self) -> bool:
        """Whether it was launched and not ended by us since; its process may have died."""
        return self._process is not None

    @property
    def pid(self) -> int | None:
        """Id of its process; None if none is alive."""
        return self._process.pid if self._process and self._process.poll() is None else None

    @property
    def configuration(self) -> Path:
        """File with its settings."""
        return self.directory / "server.properties"

    @property
    def log(self) -> Path:
        """File that it writes its log to."""
        return self.directory / "log"

    def complaint(self) -> str:
        """What its log says of errors."""
        return complaint(self.log.read_text(errors="replace") if self.log.exists() else "")

    def launch(self) -> None:
        """Start the process and its guard; returns before it answers."""
        command = [*java("-Xms256m", "-Xmx512m"), "kafka.Kafka", str(self.configuration)]
        with self.log.open("wb") as log:
            # A session of its own: Ctrl-C reaches us, and we stop the brokers in order.
            self._process = subprocess.Popen(  # noqa: S603 - made of our own paths
                command,
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
        self._process = None
        if self._guard is not None:
            self._guard.dismiss()
            self._guard = None
