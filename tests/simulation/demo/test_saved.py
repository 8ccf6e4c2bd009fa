"""What the run saves against other ways: counted alike for all of them."""

from dataclasses import replace

import numpy as np
import pytest

from schemas.messages.pods import Pod
from simulation.cluster.cluster import Eviction
from simulation.demo.grid import UsageGrid
from simulation.demo.saved import ways
from simulation.demo.scenario import simulated_scenario
from simulation.demo.session import Session


def _session(hot_bins: int) -> Session:
    """A session of three nodes; the first node is hot in so many bins."""
    scenario = simulated_scenario(3, 1, 4)
    session = Session(scenario, lambda topic, message: None, 0)
    _fill(session.grid, hot_bins, session.relief.hot_above)
    return session


def _fill(grid: UsageGrid, hot_bins: int, limit: float) -> None:
    grid.counts[:] = 1
    grid.sums[:] = 0
    cpu = grid.sums[0]
    cpu[:hot_bins, 0] = limit + 0.01
    cpu[hot_bins:, 0] = limit - 0.01


def test_hot_minutes_are_counted_at_the_threshold_of_the_runs_own_policy() -> None:
    session, other = _session(2), _session(5)
    compared = UsageGrid(4, session.scenario.begin_ms, session.scenario.end_ms)
    _fill(compared, 7, session.relief.hot_above)
    pod = Pod(namespace="demo", name="a", uid="a", node="n")
    other.evictions.append(Eviction(pod, "n", 0, None))
    minutes = session.grid.bin_ms / 60_000
    ours, by_requests, koordinator = ways(session, compared, other)
    assert ours.hot_minutes == pytest.approx(2 * minutes)
    assert by_requests.hot_minutes == pytest.approx(7 * minutes)
    assert koordinator.hot_minutes == pytest.approx(5 * minutes)
    assert (ours.evictions, by_requests.evictions, koordinator.evictions) == (0, 0, 1)
    assert by_requests.waiting is None


def test_a_way_that_was_not_run_is_left_out() -> None:
    session = _session(0)
    names = [each.name for each in ways(session, session.grid, None)]
    assert names[0] == "loadstream"
    assert len(names) == 2
    assert replace(ways(session, session.grid, None)[0], name="x").hot_minutes == 0
    assert not np.isnan(ways(session, session.grid, None)[1].hot_minutes)
