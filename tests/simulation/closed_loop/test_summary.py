"""The tables of a comparison."""

from dataclasses import replace

from simulation.closed_loop.comparison import Comparison, compute_ratio, compute_spread
from simulation.closed_loop.finished_runs import Calibration, Run
from simulation.closed_loop.measures import PredictionBin, Result
from simulation.closed_loop.parameters import Parameters
from simulation.closed_loop.report import (
    COLUMNS,
    format_lines,
    format_markdown,
    tabulate_figures,
    tabulate_predictions,
)


def run(contender: str, hot: int, evictions: int = 0, day: str = "d", seed: int = 0) -> Run:
    figures = {name: 0.0 for name, _, _ in COLUMNS if name != "cpu_s"}
    figures |= {"hot_cpu_minutes": hot, "hot_cpu_weighted_minutes": 1.5 * hot}
    figures |= {"evictions": evictions, "waiting_pod_minutes": 60}
    return Run(contender, day, seed, Calibration(1.0, 0.6, 10), Result(figures), 2.0)


def comparison(*runs: Run) -> Comparison:
    return Comparison(Parameters(), (), runs)


def test_a_figure_is_the_median_over_days_and_seeds_with_its_range() -> None:
    runs = [run("loadstream", hot, day=day) for day, hot in (("a", 5), ("b", 40), ("c", 7))]
    spread = compute_spread(runs, "hot_cpu_minutes")
    assert (spread.median, spread.least, spread.most) == (7, 5, 40)
    assert tabulate_figures(comparison(*runs))[1][:2] == ["loadstream", "7 (5 to 40)"]


def test_a_ratio_compares_runs_with_the_same_pods() -> None:
    ours = [run("loadstream", 10, day="a"), run("loadstream", 90, day="b")]
    others = [run("least-allocated", 20, day="a"), run("least-allocated", 100, day="b")]
    ratio = compute_ratio(ours, others, "hot_cpu_minutes")
    assert ratio is not None
    assert (ratio.least, ratio.most) == (0.5, 0.9)


def test_a_policy_of_the_user_is_compared_with_each_baseline() -> None:
    runs = [run("mine", 10), run("least-allocated", 20), run("loadstream", 5)]
    lines = list(format_lines(comparison(*runs)))
    rows = [line.split()[:4] for line in lines if " / " in line]
    assert rows == [
        [name, "/", "least-allocated", hot]
        for name, hot in (("mine", "0.50"), ("loadstream", "0.25"))
    ]


def test_predictions_of_all_runs_are_compared_with_the_actual_usage() -> None:
    bins = (PredictionBin(10, 0.5, 1), PredictionBin())
    ours = [
        replace(entry, result=replace(entry.result, predictions=bins))
        for entry in (run("loadstream", 10, seed=0), run("loadstream", 30, seed=1))
    ]
    _, row = tabulate_predictions([comparison(*ours, run("least-allocated", 10))])
    assert row[1:] == ["0.0500", "0.1000", "20"]


def test_the_page_has_a_row_for_each_scenario_and_each_day() -> None:
    runs = [run(name, 10, day=day) for name in ("loadstream", "least-allocated") for day in "ab"]
    of = comparison(*runs)
    busy = replace(of, parameters=Parameters(scenario="peak", load=0.285))
    page = format_markdown([of, busy], "chart.svg", ["closed-loop", "--scenario", "all"])
    assert "    loadstream closed-loop --scenario all\n" in page
    assert page.count("| mixed, 40 % | 1.00 |") == page.count("| peak, 28.5 % | 1.00 |") == 1
    assert page.count("| a | 1.00 |") == page.count("| b | 1.00 |") == 2
