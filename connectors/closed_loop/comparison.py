"""Several contenders over several seeds: the runs, and what they come to together."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean, pstdev
from typing import Any

from connectors.closed_loop.contenders import MakeContender
from connectors.closed_loop.measures import Result
from connectors.closed_loop.parameters import Parameters
from connectors.closed_loop.scenario import draw_scenario
from connectors.closed_loop.traces import Traces
from connectors.closed_loop.world import run


@dataclass(frozen=True, slots=True)
class Cost:
    """What a run cost here; the only figures that differ from run to run."""

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
) -> Comparison:
    """Run every contender with every seed.

    Args:
        parameters: of all runs.
        seeds: one scenario each.
        traces: what scenarios are drawn from.
        make: contenders by name, made anew for each run.
        progress: is called with a line now and then.
        cpu_s: CPU time of this process so far.
    """
    results, costs, calibrations = [], [], []
    for seed in seeds:
        scenario = draw_scenario(parameters, seed, traces)
        calibrations.append(
            Calibration(seed, scenario.factor, scenario.requested_share, len(scenario.plans))
        )
        for name, make_one in make.items():
            begun_s = cpu_s()

            def said(
                hours: float, name: str = name, seed: int = seed, begun: float = begun_s
            ) -> None:
                whole = parameters.filling_hours + parameters.hours
                progress(
                    f"{name}, seed {seed}: {hours:.0f} of {whole:.0f} h after {cpu_s() - begun:.0f} s of CPU"
                )

            result = run(scenario, make_one(), said)
            results.append(result)
            costs.append(Cost(name, seed, cpu_s() - begun_s, result.own.get("records", 0)))
    return Comparison(parameters, traces.files, tuple(calibrations), tuple(results), tuple(costs))
