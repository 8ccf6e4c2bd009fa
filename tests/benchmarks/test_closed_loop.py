"""Ratios of the closed loop: of the right runs, and none where a run proves nothing."""

from dataclasses import replace

import pytest

from benchmarks import closed_loop
from benchmarks.closed_loop import OTHERS, OURS, check, run, total
from benchmarks.figures import Unproven
from simulation.closed_loop.comparison import Comparison
from simulation.closed_loop.finished_runs import Calibration, Run
from simulation.closed_loop.measures import Result
from simulation.closed_loop.parameters import Parameters


def result(contender: str, seed: int, hot: int, evictions: int = 0, **figures: float) -> Run:
    usual = {"placed_pods": 1000.0, "waiting_pods": 0.0}
    counted = {"hot_cpu_minutes": hot, "evictions": evictions}
    found = Result({**usual, **counted, **figures}, {"records": 3000})
    return Run(contender, "model", seed, Calibration(1.0, 0.6, 10), found, 1.0 + seed)


def compared(*runs: Run) -> Comparison:
    return Comparison(Parameters(), (), runs)


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two seeds, as if they had been run."""
    of = compared(
        result(OURS, 0, 10, 1), result(OURS, 1, 20, 2),
        result(OTHERS["least_allocated"], 0, 100), result(OTHERS["least_allocated"], 1, 200),
        result(OTHERS["koordinator"], 0, 20, 4), result(OTHERS["koordinator"], 1, 40, 8),
    )  # fmt: skip
    monkeypatch.setattr(closed_loop, "run", lambda *_: of)


@pytest.mark.usefixtures("runs")
@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("hot_minutes_vs_least_allocated.load_40", 0.1),
        ("hot_minutes_vs_koordinator.load_55", 0.5),
        ("evictions_vs_koordinator.load_40", 0.25),
        ("simulate_records_per_s", 2000.0),
    ],
)
def test_a_figure_is_a_ratio_of_sums_over_the_seeds(name: str, value: float) -> None:
    figure = closed_loop.benchmarks()[name]()
    assert figure.name == name
    assert figure.value == pytest.approx(value)
    assert figure.detail["traces"] == "built-in model"
    assert figure.detail["seeds"] == [0, 1]


def test_a_ratio_to_nothing_is_no_figure(monkeypatch: pytest.MonkeyPatch) -> None:
    of = compared(result(OURS, 0, 10), result(OTHERS["koordinator"], 0, 20))
    monkeypatch.setattr(closed_loop, "run", lambda *_: of)
    with pytest.raises(Unproven, match="had no evictions in any run"):
        closed_loop.benchmarks()["evictions_vs_koordinator.load_40"]()


def test_a_run_with_refused_records_or_waiting_pods_is_no_figure() -> None:
    check(compared(result(OURS, 0, 10, waiting_pods=10)))
    with pytest.raises(Unproven, match="left 11 pods waiting"):
        check(compared(result(OURS, 0, 10, waiting_pods=11)))
    run_3 = result(OURS, 3, 10)
    refused = replace(run_3, result=replace(run_3.result, counts={"dead_letters": 2}))
    with pytest.raises(Unproven, match="2 records were refused in seed 3: loadstream"):
        check(compared(refused))


@pytest.mark.slow
def test_the_runs_are_those_of_the_closed_loop() -> None:
    of = run(40, 6, 0.3, (0,))
    assert set(of.contenders) == {OURS, *OTHERS.values()}
    assert total(of, OURS, "placed_pods") > 0
    assert run(40, 6, 0.3, (0,)) is of
