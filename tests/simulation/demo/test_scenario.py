"""Scenarios: sizes, speeds, and what they say of themselves."""

from pathlib import Path

import pytest

from simulation.cluster.tracefiles import TraceError
from simulation.demo.scenario import (
    TRACE_MILLICORES,
    simulated_scenario,
    trace_scenario,
)
from tests.simulation.cluster.traces import small_traces, write_alibaba, write_openb
from tests.simulation.demo.inmemory import InMemoryWorker


def test_a_run_lasts_as_long_as_asked_for_with_a_sample_every_two_minutes() -> None:
    scenario = simulated_scenario(40, 1, 24)
    assert scenario.end_ms - scenario.begin_ms == 86_400_000
    assert len(scenario.readings) == pytest.approx(40 * 720, rel=0.01)
    assert 800 < len(scenario.plans) < 2500


def test_a_trace_says_what_it_replays_and_what_it_leaves_out(tmp_path: Path) -> None:
    scenario = trace_scenario(small_traces(tmp_path), 7, 1, 24)
    load, pods, policy, acts = scenario.notes
    assert "carried by six pods each" in acts
    assert "3 machines, repeated with shifts in time to 7 nodes" in load
    assert "1 of 4 want GPUs and were left out" in pods
    assert "averages 87 %" in policy
    assert "99 %" in policy
    assert scenario.complaints == ()
    assert len(scenario.machines) == 7
    assert scenario.policy.load_aware.usage_thresholds["memory"] == 99
    assert {machine.millicores for machine in scenario.machines} == {TRACE_MILLICORES}
    assert [plan.pod.name for plan in scenario.plans] == ["task-a", "task-b", "task-d"]
    assert set(scenario.readings.machine.tolist()) == set(range(7))


def test_what_could_not_be_read_of_a_trace_is_said(tmp_path: Path) -> None:
    write_alibaba(tmp_path, ["m_1,0,10,20", "m_1,60,-1,20", "m_1,what,1,2", "m_1,7200,10,20"])
    write_openb(tmp_path, ["a,1000,1,0,0,,LS,Running,1,9,", "b,x,1,0,0,,LS,Running,1,9,"])
    scenario = trace_scenario(tmp_path, 3, 1, 4)
    assert "1 readings without a valid value were left out" in scenario.notes[0]
    text = "\n".join(scenario.complaints)
    assert "machine_usage.csv line 4: time_seconds: found 'what'" in text
    assert "openb_pod_list.csv line 3: cpu_milli: found 'x'" in text
    assert "machine_usage.csv: 1 rows could not be read" in text


def test_fewer_nodes_have_fewer_tasks_and_it_is_said(tmp_path: Path) -> None:
    small_traces(tmp_path)
    tasks = [f"t{n:03},4000,8192,0,0,,LS,Running,{n * 100},{n * 100 + 50}," for n in range(300)]
    write_openb(tmp_path, tasks)
    whole, part = trace_scenario(tmp_path, 12, 1, 24), trace_scenario(tmp_path, 3, 1, 24)
    assert len(whole.plans) == 300
    assert len(part.plans) == 82
    assert "82 evenly taken from 300 tasks" in part.notes[1]
    names = [plan.pod.name for plan in part.plans]
    assert names == sorted(names)
    assert names[-1] > "t290"


def test_a_directory_without_traces_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="holds no machine usage"):
        trace_scenario(tmp_path, 3, 1, 4)
    write_alibaba(tmp_path, ["m_1,0,10,20"])
    with pytest.raises(TraceError, match="holds no pods of the OpenB trace"):
        trace_scenario(tmp_path, 3, 1, 4)


def test_traces_run_through_the_stages_without_a_dead_letter(tmp_path: Path) -> None:
    worker = InMemoryWorker(trace_scenario(small_traces(tmp_path), 4, 1, 4))
    session = worker.run()
    assert session.observed.dead_letters == []
    assert session.observed.unanswered == 0
    assert session.placed_at_ms
