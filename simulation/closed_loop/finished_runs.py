"""Finished runs in a directory: what is there need not be run again.

A day of a large cluster takes long. Each run that has ended is written to a file of its own, so a
comparison that was stopped goes on where it was, several may work side by side for one report, and
a report is made anew in seconds. A file is found by all that decides its figures: parameters, seed,
traces, the contender's text and the version of loadstream. Who changes code between two calls of
one version wants an empty directory.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from simulation.closed_loop.measures import Result
from simulation.closed_loop.parameters import Parameters
from simulation.closed_loop.traces import Traces


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run cost where it ran; the only figures that differ from run to run."""

    contender: str
    seed: int
    cpu_s: float
    records: int
    """Records that both stages applied; 0: the contender is a rule."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """What was found for a seed, so that its load is as asked."""

    seed: int
    factor: float
    requested_share: float
    pods: int


@dataclass(frozen=True, slots=True)
class Run:
    """One contender with one seed, to its end."""

    calibration: Calibration
    result: Result
    cost: Cost


class UnreadableRun(ValueError):
    """A file of a finished run cannot be read; the message names it."""


class FinishedRuns:
    """Runs of one comparison that are kept in a directory."""

    def __init__(
        self, directory: Path, traces: Traces, definitions: Mapping[str, str], version: str
    ) -> None:
        """`definitions`: what each contender goes by, by name.

        Raises OSError where the directory cannot be made or written.
        """
        if directory.exists() and not directory.is_dir():
            raise NotADirectoryError(
                f"{directory} is a file; expected a directory for finished runs"
            )
        directory.mkdir(parents=True, exist_ok=True)
        if not os.access(directory, os.W_OK | os.X_OK):
            raise PermissionError(f"{directory} cannot be written; expected one for finished runs")
        self._directory = directory
        self._definitions = definitions
        self._same = {"version": version, "traces": _digest(traces)}

    def find(self, parameters: Parameters, seed: int, contender: str) -> Run | None:
        """A run that has ended before; none: there is none.

        Raises UnreadableRun where its file is damaged.
        """
        path = self._path(parameters, seed, contender)
        try:
            document = json.loads(path.read_bytes())
            result = document["result"]
            return Run(
                Calibration(**document["calibration"]),
                Result(**{**result, "hourly_hot": tuple(result["hourly_hot"])}),
                Cost(**document["cost"]),
            )
        except FileNotFoundError:
            return None
        except (ValueError, TypeError, KeyError) as error:
            raise UnreadableRun(
                f"{path} holds no finished run ({error}); remove it, and it is run again"
            ) from None

    def keep(self, parameters: Parameters, run: Run) -> None:
        """Write a run that has ended; a file is whole or not there."""
        path = self._path(parameters, run.result.seed, run.result.contender)
        part = path.with_suffix(f".{os.getpid()}.part")
        part.write_text(json.dumps({"parameters": asdict(parameters), **asdict(run)}))
        part.replace(path)

    def _path(self, parameters: Parameters, seed: int, contender: str) -> Path:
        of: dict[str, Any] = {
            **self._same,
            "parameters": asdict(parameters),
            "contender": self._definitions[contender],
        }
        key = hashlib.sha256(json.dumps(of, sort_keys=True).encode()).hexdigest()[:16]
        return self._directory / f"{contender}-load-{parameters.load:g}-seed-{seed}-{key}.json"


def _digest(traces: Traces) -> str:
    digest = hashlib.sha256()
    system = () if traces.system is None else (traces.system,)
    for array in (traces.nodes, traces.pods, traces.cpu_percent, *system):
        digest.update(str(array.shape).encode())
        digest.update(array.tobytes())
    return digest.hexdigest()
