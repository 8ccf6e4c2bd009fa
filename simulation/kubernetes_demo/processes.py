"""The processes of loadstream around a cluster: a worker, and one for each duty.

Each is the command that one would run by hand, with its settings in the environment and its log in
a file. They are started, stopped and killed one by one, so that a test can take any of them away.
"""

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from connectors.process.child_process import ChildProcess

_COMMAND = [sys.executable, "-m", "loadstream"]
_SHOWN_LINES = 15


class ProcessDied(RuntimeError):
    """A process of loadstream has ended by itself; the message holds the end of its log."""


@dataclass(slots=True)
class Loadstream(ChildProcess):
    """One process: `loadstream` with these arguments."""

    arguments: tuple[str, ...]
    settings: Mapping[str, str] = field(default_factory=dict)
    """Variables of its environment, beside the caller's that are not loadstream's."""

    def command(self) -> list[str]:
        """Python, our command line, its arguments."""
        inherited = [name for name in os.environ if name.upper().startswith("LOADSTREAM_")]
        unset = [word for name in inherited for word in ("-u", name)]
        given = [f"{name}={value}" for name, value in self.settings.items()]
        return ["env", *unset, *given, *_COMMAND, *self.arguments]

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return " ".join(each for each in self.arguments[:2] if not each.startswith("-"))

    def start(self) -> None:
        """Start it, for the first time or again."""
        self.directory.mkdir(parents=True, exist_ok=True)
        self.launch()

    def check(self) -> None:
        """Raises ProcessDied if it has ended by itself."""
        if self.launched and self.pid is None:
            said = "\n".join(f"    {line}" for line in self.output().splitlines()[-_SHOWN_LINES:])
            raise ProcessDied(f"{self.name} has ended by itself; its log {self.log}:\n{said}")


def worker(directory: Path, settings: Mapping[str, str]) -> Loadstream:
    """A worker of both stages."""
    home = directory / "worker"
    return Loadstream(
        home, ("worker",), {**settings, "LOADSTREAM_WORKER_DATA_DIR": str(home / "data")}
    )


def duty(
    directory: Path,
    name: str,
    cluster: str,
    kubeconfig: Path | None,
    settings: Mapping[str, str],
    more: Sequence[str] = (),
) -> Loadstream:
    """A process of one duty; several of a name need directories of their own.

    Without a kubeconfig it finds its API server as any process does.
    """
    named = () if kubeconfig is None else ("--kubeconfig", str(kubeconfig))
    arguments = ("kubernetes", name, "--cluster", cluster, *named, *more)
    return Loadstream(directory / name, arguments, settings)
