"""Scenarios: sizes, speeds, and what they say of themselves."""

from pathlib import Path

import pytest

from simulation.cluster.tracefiles import TraceError
from simulation.demo.scenario import (
    LIVE_NODE,
    SAMPLES_PER_S_MAX,
    SPAN_MIN_S,
    SPEED_MAX,
    TRACE_MILLICORES,
    simulated_scenario,
    trace_scenario,
)
from tests.simulation.cluster.traces import small_traces, write_alibaba, write_openb
from tests.simulation.demo.inmemory import InMemoryWorker


@pytest.mark.parametrize(("nodes", "seconds"), [(3, 10), (40, 60), (40, 10), (400, 60), (1000, 10)])
def test_a_run_fits_its_time_and_one_worker(nodes: int, seconds: int) -> None:
    scenario = simulated_scenario(nodes, 1, seconds, "not here")
    span_s = (scenario.end_ms - scenario.begin_ms) / 1000
    assert span_s == pytest.approx(seconds * scenario.speed, rel=1e-3)
    assert scenario.speed <= SPEED_MAX
    assert len(scenario.readings) / seconds <= SAMPLES_PER_S_MAX * 1.01
    assert span_s >= SPAN_MIN_S * 0.99
    assert scenario.plans


def test_by_default_a_minute_is_a_day() -> None:
    scenario = simulated_scenario(40, 1, 60, "not here")
    assert scenario.end_ms - scenario.begin_ms == 86_400_000
    assert 800 < len(scenario.plans) < 2500


def test_this_machine_is_one_more_node_or_its_absence_is_said() -> None:
    with_it = simulated_scenario(3, 1, 10, (2000, 1 << 30))
    assert with_it.live == 3
    assert with_it.machines[3].name == LIVE_NODE
    assert any(LIVE_NODE in note for note in with_it.notes)
    without = simulated_scenario(3, 1, 10, "there is no /proc")
    assert without.live is None
    assert len(without.machines) == 3
    assert any("left out: there is no /proc" in note for note in without.notes)


def test_the_load_of_simulated_nodes_does_not_depend_on_this_machine() -> None:
    one = simulated_scenario(3, 1, 10, (2000, 1 << 30))
    other = simulated_scenario(3, 1, 10, (8000, 1 << 34))
    assert one.plans == other.plans
    assert (one.readings.millicores == other.readings.millicores).all()


def test_a_trace_says_what_it_replays_and_what_it_leaves_out(tmp_path: Path) -> None:
    scenario = trace_scenario(small_traces(tmp_path), 7, 1, 60)
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
    scenario = trace_scenario(tmp_path, 3, 1, 10)
    assert "1 readings without a valid value were left out" in scenario.notes[0]
    text = "\n".join(scenario.complaints)
    assert "machine_usage.csv line 4: time_seconds: found 'what'" in text
    assert "openb_pod_list.csv line 3: cpu_milli: found 'x'" in text
    assert "machine_usage.csv: 1 rows could not be read" in text


def test_fewer_nodes_have_fewer_tasks_and_it_is_said(tmp_path: Path) -> None:
    small_traces(tmp_path)
    tasks = [f"t{n:03},4000,8192,0,0,,LS,Running,{n * 100},{n * 100 + 50}," for n in range(300)]
    write_openb(tmp_path, tasks)
    whole, part = trace_scenario(tmp_path, 12, 1, 60), trace_scenario(tmp_path, 3, 1, 60)
    assert len(whole.plans) == 300
    assert len(part.plans) == 82
    assert "82 evenly taken from 300 tasks" in part.notes[1]
    names = [plan.pod.name for plan in part.plans]
    assert names == sorted(names)
    assert names[-1] > "t290"


def test_a_directory_without_traces_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="holds no machine usage"):
        trace_scenario(tmp_path, 3, 1, 10)
    write_alibaba(tmp_path, ["m_1,0,10,20"])
    with pytest.raises(TraceError, match="holds no pods of the OpenB trace"):
        trace_scenario(tmp_path, 3, 1, 10)


def test_traces_run_through_the_stages_without_a_dead_letter(tmp_path: Path) -> None:
    worker = InMemoryWorker(trace_scenario(small_traces(tmp_path), 4, 1, 10))
    session = worker.run()
    assert session.observed.dead_letters == []
    assert session.observed.unanswered == 0
    assert session.placed_at_ms
