"""Scenarios match their parameters, and equal seeds draw equal scenarios."""

from dataclasses import replace

import numpy as np
import pytest

from simulation.closed_loop.parameters import Parameters
from simulation.closed_loop.scenario import (
    BEGIN_MS,
    BUDGETED,
    HOUR_MS,
    ImpossibleScenario,
    draw_scenario,
)
from simulation.closed_loop.traces import STEP_S, model_traces
from tests.simulation.closed_loop.days import scenario


def test_the_same_seed_draws_the_same_scenario_and_another_one_another() -> None:
    first, second, other = scenario(3), scenario(3), scenario(4)
    assert first.plans == second.plans
    assert first.machines == second.machines
    assert first.factor == second.factor
    assert (first.demands.cpu_millicores == second.demands.cpu_millicores).all()
    assert other.plans != first.plans


@pytest.mark.parametrize("load", [0.40, 0.55])
def test_the_mean_demand_is_the_requested_load(load: float) -> None:
    drawn = scenario(nodes=40, hours=4, load=load)
    at_ms = np.array([plan.at_ms - BEGIN_MS for plan in drawn.plans])
    life_ms = np.array([plan.life_ms for plan in drawn.plans])
    begin_ms, end_ms = drawn.measured_ms - BEGIN_MS, drawn.end_ms - BEGIN_MS
    sums = []
    for now_ms in range(begin_ms, end_ms, 1000 * STEP_S):
        alive = np.flatnonzero((at_ms <= now_ms) & (now_ms < at_ms + life_ms))
        sums.append(drawn.demands.compute_cpu(alive, now_ms).sum())
    cores = sum(machine.millicores for machine in drawn.machines)
    assert np.mean(sums) / cores == pytest.approx(load)


def test_requests_fill_the_share_of_the_nodes_that_matches_the_load() -> None:
    """Several seeds, since a few large pods change the result by five percent."""
    shares = [scenario(seed, nodes=60, hours=6).requested_share for seed in range(4)]
    assert np.mean(shares) == pytest.approx(0.60, abs=0.06)
    shares = [scenario(seed, nodes=60, hours=6, load=0.55).requested_share for seed in range(4)]
    assert np.mean(shares) == pytest.approx(0.80, abs=0.08)


def test_pods_that_run_at_the_beginning_have_longer_lifetimes() -> None:
    """The remaining lifetime of a pod drawn in proportion to its lifetime has this mean."""
    drawn = scenario(nodes=100, hours=2, life_spread=1.0)
    half_filled = BEGIN_MS + HOUR_MS // 4
    lives = np.array([plan.life_ms for plan in drawn.plans if plan.at_ms > half_filled])
    standing = np.array([plan.life_ms for plan in drawn.plans if plan.at_ms <= half_filled])
    assert np.mean(standing) == pytest.approx(np.mean(lives**2.0) / (2 * np.mean(lives)), rel=0.25)
    assert np.mean(standing) > np.mean(lives)


def test_a_share_of_the_owners_has_a_budget_and_their_replicas_differ() -> None:
    drawn = scenario(nodes=50, budgeted_share=0.25)
    owners: dict[str, str] = {}
    replicas: dict[str, int] = {}
    for plan in drawn.plans:
        name = plan.pod.owners[0].name
        owners[name] = plan.pod.namespace
        replicas[name] = replicas.get(name, 0) + 1
    budgeted = sum(namespace == BUDGETED for namespace in owners.values())
    assert budgeted / len(owners) == pytest.approx(0.25, abs=0.03)
    assert max(replicas.values()) > 4 * np.median(list(replicas.values()))


@pytest.mark.parametrize("spread_hours", [0.0, 12.0])
def test_demand_is_highest_at_the_noon_of_the_owner_and_lowest_at_its_midnight(
    spread_hours: float,
) -> None:
    flat = replace(model_traces(), cpu_percent=np.full((1, 288), 50, dtype=np.float32))
    parameters = Parameters(nodes=8, hours=20, day_swing=0.5, day_spread_hours=spread_hours)
    drawn = draw_scenario(parameters, 0, flat)
    times = np.arange(0, 24 * HOUR_MS, HOUR_MS // 4)
    pods = np.arange(200)
    hourly = drawn.demands.compute_cpu(pods[:, np.newaxis], times[np.newaxis, :])
    assert (hourly.max(axis=1) / hourly.min(axis=1)) == pytest.approx(3.0, rel=0.01)
    noons = np.unique(times[hourly.argmax(axis=1)] / HOUR_MS)
    assert 12 - spread_hours / 2 <= noons.min() <= noons.max() <= 12 + spread_hours / 2
    assert len(noons) > 1 or not spread_hours


def test_steps_of_the_trace_are_not_interpolated() -> None:
    drawn = scenario()
    times = np.arange(0, 3600, 10) * 1000
    demand = np.array(
        [drawn.demands.compute_cpu(np.array([0]), int(now_ms))[0] for now_ms in times]
    )
    changes = np.flatnonzero(np.diff(demand))
    assert len(changes) > 3
    assert set(np.diff(changes) % (STEP_S // 10)) == {0}


def test_a_load_that_leaves_nothing_for_pods_is_refused() -> None:
    with pytest.raises(
        ImpossibleScenario, match=r"system_share: found 0\.35; with seed 2 .* a load of 40% leaves"
    ):
        scenario(2, nodes=6, hours=0.5, load=0.4, system_share=0.35)
