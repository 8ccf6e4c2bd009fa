"""Workers and duties of loadstream as child processes, each with a log file.

A process runs the command that a user would run. Tests start, stop and kill single processes.
"""

import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from connectors.process.child_process import ChildProcess
from schemas.settings.connection import ENV_PREFIX, KafkaSettings

_COMMAND = [sys.executable, "-m", "loadstream"]
#: A process that does not end within this time is killed.
_STOP_TIMEOUT_S = 20.0


class ProcessDied(RuntimeError):
    """A process of loadstream has ended by itself; the message has the end of its log."""


@dataclass(slots=True)
class LoadstreamProcess(ChildProcess):
    """One process: `loadstream` with these arguments."""

    arguments: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Environment variables of the process, which replace the caller's `LOADSTREAM_` variables."""

    def command(self) -> list[str]:
        """Return a command line that removes the caller's `LOADSTREAM_` variables with `env -u`."""
        inherited = [name for name in os.environ if name.upper().startswith("LOADSTREAM_")]
        unset = [word for name in inherited for word in ("-u", name)]
        assignments = [f"{name}={value}" for name, value in self.settings.items()]
        return ["env", *unset, *assignments, *_COMMAND, *self.arguments]

    @property
    def name(self) -> str:
        return " ".join(argument for argument in self.arguments[:2] if not argument.startswith("-"))

    def start(self) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        self.launch()

    def check(self) -> None:
        """Raise ProcessDied if the process has ended by itself."""
        if self.launched and self.pid is None:
            raise ProcessDied(f"{self.name} has ended by itself; {self.describe_log()}")


def make_environment(kafka: KafkaSettings) -> dict[str, str]:
    """Return environment variables with which processes find a local broker."""
    return {
        f"{ENV_PREFIX}BOOTSTRAP_SERVERS": kafka.bootstrap_servers,
        f"{ENV_PREFIX}PARTITIONS": str(kafka.partitions),
        "LOADSTREAM_LOG_FORMAT": "console",
    }


@contextmanager
def run_processes(processes: Sequence[LoadstreamProcess]) -> Iterator[Sequence[LoadstreamProcess]]:
    """Start processes, and stop them at the end of the block."""
    try:
        for process in processes:
            process.start()
        yield processes
    finally:
        for process in reversed(processes):
            process.ask_to_stop()
        for process in reversed(processes):
            process.wait_for_end(_STOP_TIMEOUT_S)


def make_worker(directory: Path, settings: Mapping[str, str]) -> LoadstreamProcess:
    """Return a worker with both stages, unless the settings name a stage."""
    home = (directory / "worker").absolute()
    return LoadstreamProcess(
        home, ("worker",), {**settings, "LOADSTREAM_WORKER_DATA_DIR": str(home / "data")}
    )


def make_duty(
    directory: Path,
    name: str,
    cluster: str,
    kubeconfig: Path | None,
    settings: Mapping[str, str],
    options: Sequence[str] = (),
) -> LoadstreamProcess:
    """Return a process of one duty. Two processes of the same duty need different directories.

    Without a kubeconfig, environment variables name the API server.
    """
    credentials = () if kubeconfig is None else ("--kubeconfig", str(kubeconfig))
    arguments = ("kubernetes", name, "--cluster", cluster, *credentials, *options)
    return LoadstreamProcess(directory / name, arguments, settings)
