"""Invariants hold in random histories, which give the same results every time."""

from typing import Any

import pytest

from streams.cluster import rebalancer
from streams.migration import arbitration, drains, execution, tracking
from streams.rebalance import balancer
from streams.rebalance.thresholds import evictions
from tests.histories.history import draw_history
from tests.histories.run import run

#: Limits of what one record or tick may do, which short histories reach.
_SMALL: dict[Any, dict[str, int]] = {
    arbitration: {"ARBITRATED_PER_TICK_MAX": 2},
    drains: {"PODS_PER_TICK_MAX": 2},
    execution: {"EXECUTED_PER_TICK_MAX": 2, "COMMANDS_PER_TICK_MAX": 1},
    tracking: {"ENDED_PER_TICK_MAX": 1},
    balancer: {"CHECKED_PODS_MAX": 3},
    evictions: {"SORTED_PER_CHECKED": 2},
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
