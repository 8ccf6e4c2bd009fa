"""Several contenders over several seeds: the runs, and what they come to together."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from statistics import fmean, pstdev
from typing import Any

from simulation.closed_loop.finished_runs import Calibration, Cost, FinishedRuns, Run
from simulation.closed_loop.measures import Result
from simulation.closed_loop.parameters import Parameters
from simulation.closed_loop.runs import Runs, Task


@dataclass(frozen=True, slots=True)
class Comparison:
    """All runs."""

    parameters: Parameters
    files: tuple[str, ...]
    """Traces; empty: the built-in model."""
    calibrations: tuple[Calibration, ...]
    results: tuple[Result, ...]
    costs: tuple[Cost, ...]

    def contenders(self) -> Iterator[tuple[str, list[Result]]]:
        """Results of each contender, in the order of the seeds."""
        for name in dict.fromkeys(each.contender for each in self.results):
            yield name, [each for each in self.results if each.contender == name]

    def document(self) -> dict[str, Any]:
        """Everything as JSON has it."""
        return {
            "parameters": {**asdict(self.parameters), "fill_share": self.parameters.fill},
            "traces": list(self.files) or "model",
            "calibration": [asdict(each) for each in self.calibrations],
            "contenders": [
                {
                    "name": name,
                    "mean": means(results),
                    "spread": spreads(results),
                    "seeds": [
                        {
                            "seed": each.seed,
                            "figures": dict(each.figures),
                            "hourly_hot_cpu_minutes": list(each.hourly_hot),
                            "counts": dict(each.counts),
                        }
                        for each in results
                    ],
                }
                for name, results in self.contenders()
            ],
            "cost": [asdict(each) for each in self.costs],
        }


def means(results: Sequence[Result]) -> dict[str, float]:
    """Means over seeds, by figure."""
    return {
        name: round(fmean(each.figures[name] for each in results), 4) for name in results[0].figures
    }


def spreads(results: Sequence[Result]) -> dict[str, float]:
    """Standard deviations over seeds, by figure."""
    return {
        name: round(pstdev([each.figures[name] for each in results]), 4)
        for name in results[0].figures
    }


def compare(
    parameters: Sequence[Parameters],
    seeds: Sequence[int],
    names: Sequence[str],
    files: tuple[str, ...],
    runs: Runs,
    kept: FinishedRuns | None = None,
) -> list[Comparison]:
    """Run every contender with every seed: a comparison for each of `parameters`.

    Args:
        parameters: of the runs of a comparison.
        seeds: one scenario each.
        names: of the contenders.
        files: traces that scenarios are drawn from; empty: the built-in model.
        runs: makes runs.
        kept: runs that have ended before are taken from there, and others are added as they end.

    Raises:
        UnreadableRun: a run that is kept cannot be read.
        RunDied: the process of a run has ended before the run.
    """
    tasks = [Task(*each) for each in product(parameters, seeds, names)]
    found: dict[Task, Run | None] = dict.fromkeys(tasks)
    if kept is not None:
        found.update(
            (each, kept.find(each.parameters, each.seed, each.contender)) for each in tasks
        )
    missing = [task for task, made in found.items() if made is None]
    for task, made in runs(missing) if missing else ():
        found[task] = made
        if kept is not None:
            kept.keep(task.parameters, made)
    return [
        join_runs(each, files, [made for task, made in found.items() if made and task.parameters == each])
        for each in parameters
    ]  # fmt: skip


def join_runs(parameters: Parameters, files: tuple[str, ...], runs: Sequence[Run]) -> Comparison:
    """The comparison of runs that have ended."""
    by_seed = {each.calibration.seed: each.calibration for each in runs}
    return Comparison(
        parameters,
        files,
        tuple(by_seed.values()),
        tuple(each.result for each in runs),
        tuple(each.cost for each in runs),
    )
