"""The figures of a run, and the verdict on it."""

from dataclasses import replace

import numpy as np
import pytest

from schemas.messages.dead_letters import DeadLetter
from schemas.messages.outcomes import CommandOutcome
from schemas.messages.pods import PodRef
from simulation.cluster.machines import Machine
from simulation.demo.grid import BINS, UsageGrid
from simulation.demo.rebalance_summary import usage_staying
from simulation.demo.scenario import simulated_scenario
from simulation.demo.session import Session
from simulation.demo.summary import (
    Figures,
    figures_of,
    problems_of,
    spread,
    thresholds,
    usage_by_requests,
)
from tests.simulation.demo.inmemory import InMemoryWorker
from tests.simulation.demo.test_relief import a_command


def test_a_grid_keeps_means_per_bin_and_machine() -> None:
    grid = UsageGrid(2, 0, BINS * 1000)
    machine = Machine("n", 1000, 1000)
    grid.add(0, 0, machine, {"cpu": 200, "memory": 400})
    grid.add(999, 0, machine, {"cpu": 400, "memory": 600})
    grid.add(1000, 1, machine, {"cpu": 1000, "memory": 0})
    grid.add(10**9, 1, machine, {"cpu": 500, "memory": 500})  # beyond the end: the last bin
    assert grid.cpu[0, 0] == pytest.approx(0.3)
    assert grid.memory[0, 0] == pytest.approx(0.5)
    assert np.isnan(grid.cpu[0, 1])
    assert grid.cpu[1, 1] == 1.0
    assert grid.cpu[-1, 1] == 0.5


def test_spread_is_taken_over_nodes_and_averaged_over_time() -> None:
    usage = np.array([[0.2, 0.4], [0.6, 1.0], [np.nan, np.nan], [np.nan, 0.5]])
    found = spread(usage, 0.55)
    assert found.mean == pytest.approx(2.7 / 5)
    assert found.deviation == pytest.approx((0.1 + 0.2 + 0.0) / 3)
    assert found.largest == pytest.approx((0.4 + 1.0 + 0.5) / 3)
    assert found.hot == pytest.approx(2 / 5)
    assert found.short == pytest.approx(1 / 5)


def test_nothing_measured_is_no_error() -> None:
    assert spread(np.full((3, 2), np.nan), 0.5).mean == 0.0


def _figures(session: Session) -> Figures:
    return figures_of(session, usage_by_requests(session), usage_staying(session), 10.0)


def test_figures_count_each_pod_once(finished: Session) -> None:
    figures = _figures(finished)
    answered = figures.placed + figures.waiting + figures.refused
    assert answered == figures.requests == len(finished.scenario.plans) + len(finished.replaced)
    assert figures.unanswered == 0
    assert figures.simulated_h == pytest.approx(4.0)
    assert figures.samples_per_s == pytest.approx(figures.samples / 10)
    assert sum(count for _, count in figures.refused_reasons) == figures.refused
    assert set(figures.full_nodes) == set(finished.observed.full_nodes)


@pytest.mark.slow
def test_by_real_load_the_nodes_are_used_more_evenly_than_by_requests_alone() -> None:
    worker = InMemoryWorker(simulated_scenario(16, 1, 12))
    figures = _figures(worker.run())
    assert figures.cpu.deviation < figures.cpu_by_requests.deviation
    assert figures.cpu.largest < figures.cpu_by_requests.largest
    assert figures.cpu.short < figures.cpu_by_requests.short
    # The same pods ran in both; where cores are short a little less is used.
    assert figures.cpu.mean == pytest.approx(figures.cpu_by_requests.mean, rel=0.1)


def test_the_threshold_is_the_one_that_filters(finished: Session) -> None:
    assert thresholds(finished) == (0.65, 0.95)


def test_a_good_run_has_no_problems(finished: Session) -> None:
    assert problems_of(finished, _figures(finished)) == []


def test_every_kind_of_trouble_is_said() -> None:
    scenario = simulated_scenario(3, 1, 4)
    session = Session(scenario, lambda topic, message: None, 0)
    session.begin()
    session.advance(scenario.end_ms)
    session.observed.dead_letter(
        DeadLetter(
            topic="node-usage",
            partition=0,
            offset=7,
            reason="usage.cpu: found -1",
            category="invalid",
            value_base64="",
        )
    )
    session.failures.append(
        CommandOutcome(
            command_id="decision-1",
            cluster="demo",
            command="bind",
            pod=PodRef(namespace="demo", name="a", uid="a"),
            result="failed",
            reason="node n1 has too little cpu free",
            happened_at_ms=scenario.begin_ms,
        )
    )
    figures = _figures(session)
    session.repeated.append(a_command(1, "twice", "n1", scenario.begin_ms))
    text = "\n".join(problems_of(session, figures))
    assert "1 evictions were commanded twice; the first one, of pod twice" in text
    assert f"no pod was placed; {session.requests} asked" in text
    assert f"{session.requests} requests were never answered" in text
    assert "1 records were refused; the first one, of node-usage: usage.cpu: found -1" in text
    assert "1 placements could not be carried out" in text
    silent = problems_of(session, replace(figures, placed=1))
    assert any("3 nodes never had a metric" in problem for problem in silent)
