"""Histories are repeatable, find faults, and are shrunk to what shows the fault."""

from pathlib import Path
from typing import Any

import pytest

from streams.cluster import rebalancer
from streams.cluster.state import ClusterState
from streams.migration import arbitration, drains, execution, tracking
from streams.rebalance import balancer
from streams.rebalance.thresholds import evictions
from tests.histories.__main__ import main
from tests.histories.history import draw_history, load, save
from tests.histories.run import run

#: Limits of what one record or tick may do, which short histories reach.
_SMALL: dict[Any, dict[str, int]] = {
    arbitration: {"ARBITRATED_PER_TICK_MAX": 2},
    drains: {"PODS_PER_TICK_MAX": 2},
    execution: {"STEPS_PER_TICK_MAX": 2, "COMMANDS_PER_TICK_MAX": 1},
    tracking: {"ENDED_PER_TICK_MAX": 1},
    balancer: {"PODS_PER_ROUND_MAX": 3},
    evictions: {"ORDERED_PER_CHECKED": 2},
    rebalancer: {"REFRESHED_PER_TICK_MAX": 2},
}


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4, 12))
def test_invariants_hold_after_every_event_of_a_history(seed: int) -> None:
    assert run(draw_history(seed, 250)).failure is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20, 26))
def test_invariants_hold_where_ticks_leave_work_to_the_next_ones(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    for module, limits in _SMALL.items():
        for limit, value in limits.items():
            monkeypatch.setattr(module, limit, value)
    assert run(draw_history(seed, 200)).failure is None


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_history_runs_to_its_end_and_the_same_way_every_time(seed: int) -> None:
    first, second = (run(draw_history(seed, 150)) for _ in range(2))
    assert first.failure is None
    assert first.counts["records"] > 150
    assert first.counts == second.counts
    assert first.records == second.records


def test_a_history_that_is_kept_is_read_as_it_was(tmp_path: Path) -> None:
    history = draw_history(4, 50)
    save(tmp_path / "history.json", history, "why")
    assert load(tmp_path / "history.json") == history


@pytest.mark.slow
def test_a_fault_is_found_shrunk_kept_and_found_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def ignore_request(state: ClusterState, *_: Any) -> list[Any]:
        return []

    monkeypatch.setattr(ClusterState, "_apply_request", ignore_request)
    arguments = ["--seeds", "1", "--events", "100", "--failures", str(tmp_path)]
    assert main(arguments) == 1
    assert "a request is forgotten" in capsys.readouterr().out
    kept = tmp_path / "1.json"
    assert len(load(kept).events) <= 3
    assert main(["--file", str(kept)]) == 1
    monkeypatch.undo()
    assert main(["--file", str(kept)]) == 0
