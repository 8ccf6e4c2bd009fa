"""The sentence of a comparison: ours beside what most clusters run."""

from simulation.closed_loop.comparison import Comparison
from simulation.closed_loop.measures import Result
from simulation.closed_loop.parameters import Parameters
from simulation.closed_loop.report import summarize


def _compared(**hot_and_evictions: tuple[int, int]) -> Comparison:
    results = tuple(
        Result(
            name.replace("_", "-"), 0, {"hot_cpu_minutes": hot, "evictions": evictions}, (), {}
        )
        for name, (hot, evictions) in hot_and_evictions.items()
    )  # fmt: skip
    return Comparison(Parameters(), (), (), results, ())


def test_ours_is_held_against_what_most_clusters_run() -> None:
    assert summarize(
        _compared(loadstream=(500, 20), least_allocated=(5000, 0), koordinator_lownodeload_75=(2000, 90))
    ) == (
        "At a mean load of 40 %, 100 nodes have 500 hot node-minutes in 24 hours under loadstream's "
        "default policy, with 20 evictions. That is 0.10 times the minutes under kube-scheduler's scores "
        "and 0.25 times the minutes under Koordinator with LowNodeLoad 45/75 (90 evictions)."
    )  # fmt: skip


def test_without_ours_there_is_nothing_to_say() -> None:
    assert summarize(_compared(least_allocated=(5000, 0))) is None
