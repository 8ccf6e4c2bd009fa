"""Several contenders over several seeds: the runs, and what they come to together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, pstdev
from typing import Any

from connectors.closed_loop.contenders import MakeContender
from connectors.closed_loop.kept import Calibration, Cost, KeptRuns, Run
from connectors.closed_loop.measures import Result
from connectors.closed_loop.parameters import Parameters
from connectors.closed_loop.scenario import Scenario, draw_scenario
from connectors.closed_loop.traces import Traces
from connectors.closed_loop.world import run


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
                            "own": dict(each.own),
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
    parameters: Parameters,
    seeds: Sequence[int],
    traces: Traces,
    make: Mapping[str, MakeContender],
    progress: Callable[[str], None],
    cpu_s: Callable[[], float],
    kept: KeptRuns | None = None,
) -> Comparison:
    """Run every contender with every seed.

    Args:
        parameters: of all runs.
        seeds: one scenario each.
        traces: what scenarios are drawn from.
        make: contenders by name, made anew for each run.
        progress: is called with a line now and then.
        cpu_s: CPU time of this process so far.
        kept: runs that have ended before are taken from there, and others are added.
    """
    runs: list[Run] = []
    for seed in seeds:
        scenario: Scenario | None = None
        for name, make_one in make.items():
            found = kept.find(parameters, seed, name) if kept else None
            if found is None:
                scenario = scenario or draw_scenario(parameters, seed, traces)
                found = _run(scenario, name, make_one, progress, cpu_s)
                if kept is not None:
                    kept.keep(parameters, found)
            runs.append(found)
    by_seed = {each.calibration.seed: each.calibration for each in runs}
    return Comparison(
        parameters,
        traces.files,
        tuple(by_seed.values()),
        tuple(each.result for each in runs),
        tuple(each.cost for each in runs),
    )


def _run(
    scenario: Scenario,
    name: str,
    make: MakeContender,
    progress: Callable[[str], None],
    cpu_s: Callable[[], float],
) -> Run:
    """One contender with one seed."""
    given, seed, begun_s = scenario.parameters, scenario.seed, cpu_s()
    whole = given.filling_hours + given.hours

    def said(hours: float) -> None:
        spent = f"{cpu_s() - begun_s:.0f} s of CPU"
        progress(
            f"{given.load:.0%} load, {name}, seed {seed}: {hours:.0f} of {whole:.0f} h after {spent}"
        )

    result = run(scenario, make(), said)
    return Run(
        Calibration(seed, scenario.factor, scenario.requested_share, len(scenario.plans)),
        result,
        Cost(name, seed, cpu_s() - begun_s, result.own.get("records", 0)),
    )
