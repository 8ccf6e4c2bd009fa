"""Whole days in the closed loop, in small: what the default policy saves, and how fast it is found.

`hot_minutes_vs_least_allocated`, `hot_minutes_vs_koordinator`, `evictions_vs_koordinator`: the sum
over days and seeds of what the default policy came to, over that of the other contender: kube-scheduler's
scores by requests, and Koordinator with LowNodeLoad 45/75. Below 1 the default policy is better.
`.load_40` and `.load_55`: mean demand for CPU, of the nodes. `simulate_records_per_s`: records that
both stages applied a second of this process's CPU, world included.

`LOADSTREAM_TRACES` names a directory of published traces; without it there is the built-in model, and
`detail` says so. One set of runs gives all figures of a load. There is no figure where a record was
refused, or a contender left more pods waiting than a hundredth of those it placed.
"""

import gc
import os
from functools import cache, partial
from pathlib import Path

from benchmarks.figures import Benchmark, Figure, Unproven
from simulation.closed_loop.comparison import Comparison, compare
from simulation.closed_loop.parameters import Parameters
from simulation.closed_loop.runs import runs
from simulation.closed_loop.traces import model_traces, read_traces

OURS = "loadstream"
OTHERS = {"least_allocated": "least-allocated", "koordinator": "koordinator-lownodeload-75"}
#: A tenth of the default scenario, three times: with three seeds, or on the first three days of traces.
NODES, HOURS, SEEDS, DAYS = 40, 6.0, (0, 1, 2), 3
LOADS = (40, 55)
#: Share of the placed pods that may be without a node in the end.
_WAITING_SHARE_MAX = 0.01
#: Names a directory of traces.
TRACES = "LOADSTREAM_TRACES"


@cache
def run(load_percent: int, nodes: int, hours: float, seeds: tuple[int, ...]) -> Comparison:
    """Runs of all contenders; the same call is the same runs."""
    directory = os.environ.get(TRACES)
    traces = read_traces(Path(directory))[:DAYS] if directory else [model_traces()]
    if len(traces) == DAYS:
        seeds = seeds[:1]
    days = [each.day for each in traces]
    files = tuple(dict.fromkeys(file for each in traces for file in each.files))
    names = (OURS, *OTHERS.values())
    parameters = Parameters(nodes=nodes, hours=hours, load=load_percent / 100)
    thresholds = gc.get_threshold()
    try:
        in_turn = runs(1, names, (), traces, lambda _: None)
        (compared,) = compare([parameters], days, seeds, names, files, in_turn)
    finally:
        gc.set_threshold(*thresholds)
    check(compared)
    return compared


def check(compared: Comparison) -> None:
    """Raises Unproven where a run is not what was meant to be run."""
    for each in compared.runs:
        figures = each.result.figures
        refused = each.result.counts.get("dead_letters", 0)
        if refused:
            raise Unproven(f"{refused} records were refused in seed {each.seed}: {each.contender}")
        placed, waiting = figures["placed_pods"], figures["waiting_pods"]
        if waiting > _WAITING_SHARE_MAX * placed:
            raise Unproven(
                f"{each.contender} left {waiting:g} pods waiting in seed {each.seed}, and placed {placed:g}"
            )


def total(compared: Comparison, contender: str, figure: str) -> float:
    """Sum of a figure over days and seeds."""
    return sum(each.result.figures[figure] for each in compared.contenders[contender])


def ratio(name: str, figure: str, other: str, load_percent: int) -> Figure:
    """What the default policy came to, over what another contender came to."""
    compared = run(load_percent, NODES, HOURS, SEEDS)
    ours, theirs = (total(compared, each, figure) for each in (OURS, other))
    if not theirs:
        raise Unproven(f"{other} had no {figure} in any run: a ratio to it says nothing")
    detail = {**_detail(compared), OURS: ours, other: theirs}
    return Figure(name, ours / theirs, "", detail)


def records_per_s(name: str) -> Figure:
    """Records a second of CPU, of the default policy at the first load."""
    compared = run(LOADS[0], NODES, HOURS, SEEDS)
    own = compared.contenders[OURS]
    records = sum(each.result.counts["records"] for each in own)
    cpu_s = sum(each.cpu_s for each in own)
    detail = {**_detail(compared), "records": records, "cpu_s": round(cpu_s, 1)}
    return Figure(name, records / cpu_s, "1/s", detail)


def _detail(compared: Comparison) -> dict[str, object]:
    return {
        "nodes": compared.parameters.nodes,
        "hours": compared.parameters.hours,
        "days": list(compared.days),
        "seeds": list(compared.seeds),
        "traces": list(compared.files) or "built-in model",
    }


def benchmarks() -> dict[str, Benchmark]:
    """All figures of this module, by name."""
    found: dict[str, Benchmark] = {
        "simulate_records_per_s": partial(records_per_s, "simulate_records_per_s")
    }
    for base, figure, other in (
        ("hot_minutes_vs_least_allocated", "hot_cpu_minutes", "least_allocated"),
        ("hot_minutes_vs_koordinator", "hot_cpu_minutes", "koordinator"),
        ("evictions_vs_koordinator", "evictions", "koordinator"),
    ):
        for load in LOADS:
            name = f"{base}.load_{load}"
            found[name] = partial(ratio, name, figure, OTHERS[other], load)
    return found
