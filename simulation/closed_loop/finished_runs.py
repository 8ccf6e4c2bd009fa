"""Finished runs, stored as one file each, so that a comparison does not repeat them.

A stopped comparison can continue, several commands can share one directory, and a report can be
written again in seconds. The name of a file contains a hash of everything that determines the figures:
parameters, seed, traces, definition of the contender and version of loadstream. If the code changed
without a new version, use an empty directory.
"""

import hashlib
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from simulation.closed_loop.measures import Result
from simulation.closed_loop.parameters import Parameters
from simulation.closed_loop.traces import Traces


@dataclass(frozen=True, slots=True)
class Task:
    parameters: Parameters
    day: str
    seed: int
    contender: str


@dataclass(frozen=True, slots=True)
class Calibration:
    """The scenario of a day and seed after calibration to its load."""

    factor: float
    requested_share: float
    pods: int


@dataclass(frozen=True, slots=True)
class Run:
    """The finished run of a contender on one day and seed."""

    contender: str
    day: str
    seed: int
    calibration: Calibration
    result: Result
    cpu_s: float
    """CPU time of the whole run, including the simulated world; not reproducible."""


_RUN = TypeAdapter(Run)


class UnreadableRun(ValueError):
    """A finished run cannot be read; the message names the file."""


class FinishedRuns:
    """Runs of one comparison, kept in a directory."""

    def __init__(
        self, directory: Path, days: Sequence[Traces], definitions: Mapping[str, str], version: str
    ) -> None:
        """`definitions` has the definition of each contender, by name."""
        self._directory = directory
        self._definitions = definitions
        self._version = version
        self._digests = {traces.day: _hash_traces(traces) for traces in days}

    def find(self, task: Task) -> Run | None:
        """Return a finished run, or None. Raises UnreadableRun if its file is damaged."""
        path = self._build_path(task)
        try:
            return _RUN.validate_json(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValidationError as error:
            raise UnreadableRun(
                f"{path} is not a finished run ({error.errors()[0]['msg']}); remove the file to repeat the run"
            ) from None

    def keep(self, task: Task, run: Run) -> None:
        """Write a finished run. A file is complete or does not exist."""
        path = self._build_path(task)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_bytes(_RUN.dump_json(run))
        part.replace(path)

    def _build_path(self, task: Task) -> Path:
        determinants: dict[str, Any] = {
            "version": self._version,
            "traces": self._digests[task.day],
            "parameters": asdict(task.parameters),
            "contender": self._definitions[task.contender],
        }
        key = hashlib.sha256(json.dumps(determinants, sort_keys=True).encode()).hexdigest()[:16]
        name = f"{task.contender}-load-{task.parameters.load:g}-{task.day}-seed-{task.seed}-{key}"
        return self._directory / f"{name}.json"


def _hash_traces(traces: Traces) -> str:
    digest = hashlib.sha256()
    system = () if traces.system is None else (traces.system,)
    for array in (traces.nodes, traces.pods, traces.cpu_percent, *system):
        digest.update(str(array.shape).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
