"""The same run under another policy: the same pods and load, decided in this process."""

from dataclasses import replace

import pytest

from schemas.policy import read_policy
from simulation.demo.alternative import koordinator_policy, run_under
from simulation.demo.scenario import simulated_scenario


def test_all_pods_come_and_what_is_decided_is_carried_out() -> None:
    scenario = simulated_scenario(6, 5, 4)
    session = run_under(koordinator_policy(0.7), scenario)
    assert session.over
    assert session.arrived == len(scenario.plans) > 0
    assert len(session.placed_at_ms) > len(scenario.plans) / 2
    assert session.observed.unanswered == 0
    assert session.failures == []
    assert session.repeated == []
    assert not session.observed.dead_letters
    assert session.enforced_ms is not None
    assert session.samples == scenario.readings.until(scenario.end_ms)


def test_the_same_policy_is_the_same_run_and_another_one_places_otherwise() -> None:
    scenario = simulated_scenario(6, 5, 4)
    policy = koordinator_policy(0.7)
    first, second = run_under(policy, scenario), run_under(policy, scenario)
    assert first.placements == second.placements
    assert run_under(scenario.policy_text, scenario).placements != first.placements


def test_the_second_act_carries_out_what_koordinators_policy_commands() -> None:
    scenario = simulated_scenario(6, 5, 4)
    for text in (koordinator_policy(0.7), scenario.policy_text):
        acts = replace(scenario, policy_text=text)
        assert read_policy(acts.policy_text).mode == "observe"
        assert read_policy(acts.enforcing_text).mode == "enforce"
    with pytest.raises(ValueError, match="has no line `mode: observe`"):
        print(replace(scenario, policy_text="mode: enforce\n").enforcing_text)


def test_koordinators_policy_has_upstreams_plugins_and_times_of_the_demo() -> None:
    koordinator = read_policy(koordinator_policy(0.7))
    ours = simulated_scenario(3, 1, 4).policy
    assert koordinator.compat == "koordinator"
    assert [each.name for each in koordinator.plugins.score] == ["LoadAwareScheduling"]
    assert koordinator.rebalance.high_thresholds == {"cpu": 70}
    assert koordinator.rebalance.low_thresholds == {"cpu": 45}
    assert koordinator.collect == ours.collect
    assert koordinator.descheduling == ours.descheduling
    assert koordinator.warnings == ()


def test_koordinator_relieves_the_nodes_that_the_run_itself_calls_hot() -> None:
    for hot, thresholds in ((0.75, (45, 75)), (0.6, (45, 60)), (0.3, (30, 30))):
        rebalance = read_policy(koordinator_policy(hot)).rebalance
        low, high = rebalance.low_thresholds or {}, rebalance.high_thresholds or {}
        assert (low["cpu"], high["cpu"]) == pytest.approx(thresholds)
