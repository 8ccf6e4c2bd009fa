"""Comparisons of several contenders over several days and seeds."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import product
from statistics import median
from typing import Any

from simulation.closed_loop.finished_runs import FinishedRuns, Run, Task
from simulation.closed_loop.parameters import Parameters
from simulation.closed_loop.runs import Runs

#: The only figure that describes the run instead of the simulated cluster.
CPU_SECONDS = "cpu_s"


@dataclass(frozen=True, slots=True)
class Spread:
    median: float
    least: float
    most: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """All runs of one scenario at one load."""

    parameters: Parameters
    files: tuple[str, ...]
    """Traces; empty: the built-in model."""
    runs: tuple[Run, ...]

    @property
    def days(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(run.day for run in self.runs))

    @property
    def seeds(self) -> tuple[int, ...]:
        return tuple(dict.fromkeys(run.seed for run in self.runs))

    @property
    def contenders(self) -> dict[str, tuple[Run, ...]]:
        """Runs of each contender, in the same order of days and seeds."""
        names = dict.fromkeys(run.contender for run in self.runs)
        return {name: tuple(r for r in self.runs if r.contender == name) for name in names}

    def document(self) -> dict[str, Any]:
        """Return the comparison as JSON values."""
        return {
            "parameters": asdict(self.parameters),
            "traces": list(self.files) or "model",
            "contenders": [
                {
                    "name": name,
                    "figures": {
                        figure: asdict(compute_spread(runs, figure))
                        for figure in runs[0].result.figures
                    },
                    "runs": [
                        {"day": run.day, "seed": run.seed, **asdict(run.result)} for run in runs
                    ],
                    CPU_SECONDS: [round(run.cpu_s, 1) for run in runs],
                }
                for name, runs in self.contenders.items()
            ],
            "calibration": [
                {"day": run.day, "seed": run.seed, **asdict(run.calibration)}
                for run in next(iter(self.contenders.values()))
            ],
        }


def get_figure(run: Run, figure: str) -> float:
    return run.cpu_s if figure == CPU_SECONDS else run.result.figures[figure]


def compute_spread(runs: Sequence[Run], figure: str) -> Spread:
    return _summarize_values([get_figure(run, figure) for run in runs])


def compute_ratio(ours: Sequence[Run], others: Sequence[Run], figure: str) -> Spread | None:
    """Return the ratio of two contenders' figures over days and seeds; None if all divisors are 0.

    Ratios vary less than figures, because runs of one day and seed have the same pods.
    """
    pairs = zip(ours, others, strict=True)
    values = [(get_figure(our, figure), get_figure(other, figure)) for our, other in pairs]
    ratios = [our / other for our, other in values if other]
    return _summarize_values(ratios) if ratios else None


def _summarize_values(values: Sequence[float]) -> Spread:
    return Spread(median(values), min(values), max(values))


def compare(
    parameters: Sequence[Parameters],
    days: Sequence[str],
    seeds: Sequence[int],
    names: Sequence[str],
    files: tuple[str, ...],
    runs: Runs,
    finished_runs: FinishedRuns | None = None,
) -> list[Comparison]:
    """Run every contender with every day and seed; return one comparison for each of `parameters`.

    Args:
        parameters: one entry per comparison.
        days: days of the traces.
        seeds: seeds of each day.
        names: names of the contenders.
        files: files of the traces; empty: the built-in model.
        runs: executes the tasks without a finished run.
        finished_runs: finished runs; new runs are added.

    Raises:
        UnreadableRun: a finished run cannot be read.
        RunDied: a process that executed a run was killed.
    """
    tasks = [Task(*task) for task in product(parameters, days, seeds, names)]
    find_run = finished_runs.find if finished_runs else lambda task: None
    run_of: dict[Task, Run | None] = {task: find_run(task) for task in tasks}
    missing = [task for task, run in run_of.items() if run is None]
    for task, run in runs(missing) if missing else ():
        run_of[task] = run
        if finished_runs is not None:
            finished_runs.keep(task, run)
    return [
        Comparison(
            run_parameters,
            files,
            tuple(run for task, run in run_of.items() if run and task.parameters == run_parameters),
        )
        for run_parameters in parameters
    ]
