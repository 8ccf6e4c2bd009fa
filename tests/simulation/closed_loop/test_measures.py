"""Measures: hot minutes, waiting and evictions."""

from dataclasses import replace

import numpy as np
import pytest

from simulation.closed_loop.measures import MINUTE_MS, PREDICTED_MINUTES, PredictionBin, Recorder
from simulation.closed_loop.scenario import Scenario
from simulation.closed_loop.usage import Moment
from simulation.cluster.cluster import Eviction
from simulation.cluster.kubelet import PodEvent
from tests.simulation.closed_loop.days import scenario

_HOT, _COLD = 0.80, 0.40


def recorded(drawn: Scenario, shares: np.ndarray) -> Recorder:
    """Return a recorder that was given these shares of CPU, of shape (minutes, nodes)."""
    recorder = Recorder(drawn)
    capacity = np.array([(node.millicores, node.memory_bytes) for node in drawn.machines], float)
    for minute, line in enumerate(shares):
        demand = capacity * line[:, np.newaxis]
        at_ms = drawn.measured_ms + minute * MINUTE_MS
        recorder.record_minute(Moment(at_ms, np.array([]), np.empty((0, 2)), demand, demand))
    return recorder


def flat(drawn: Scenario, minutes: int) -> np.ndarray:
    return np.full((minutes, len(drawn.machines)), _COLD)


def evict(recorder: Recorder, drawn: Scenario, minute: int, node: int, plan: int = 0) -> None:
    at_ms = drawn.measured_ms + minute * MINUTE_MS
    pod = drawn.plans[plan].pod
    recorder.on_eviction(Eviction(pod, drawn.machines[node].name, at_ms, None))


def test_hot_minutes_are_counted_above_the_share_and_not_at_it() -> None:
    drawn = scenario()
    shares = flat(drawn, 30)
    shares[3, 0], shares[4, 0], shares[5, 1], shares[6, 1] = 0.7501, 0.75, 0.81, 1.01
    figures = recorded(drawn, shares).compute_result({}).figures
    assert figures["hot_cpu_minutes"] == 3
    assert figures["hot_memory_minutes"] == 2
    assert figures["over_capacity_minutes"] == 1
    assert _COLD < figures["p99_cpu"] <= 1.01


def test_nothing_counts_before_the_cluster_is_filled() -> None:
    drawn = scenario()
    recorder = recorded(drawn, flat(drawn, 5))
    nothing = np.full((len(drawn.machines), 2), 1e18)
    early = Moment(drawn.measured_ms - 1, np.array([]), np.empty((0, 2)), nothing, nothing)
    recorder.record_minute(early)
    assert recorder.compute_result({}).figures["hot_cpu_minutes"] == 0


def test_hot_minutes_by_capacity_weigh_a_node_by_its_share_of_the_mean_node() -> None:
    drawn = scenario()
    shares = flat(drawn, 30)
    shares[3:5, 0] = shares[7, 1] = _HOT
    millicores = np.array([node.millicores for node in drawn.machines])
    expected = (2 * millicores[0] + millicores[1]) / millicores.mean()
    figures = recorded(drawn, shares).compute_result({}).figures
    assert figures["hot_cpu_weighted_minutes"] == pytest.approx(expected, abs=0.05)
    shares[:] = _HOT
    figures = recorded(drawn, shares).compute_result({}).figures
    assert figures["hot_cpu_weighted_minutes"] == figures["hot_cpu_minutes"]


def test_a_pod_that_is_evicted_again_within_an_hour_has_bounced() -> None:
    drawn = scenario(hours=4)
    recorder = recorded(drawn, flat(drawn, 200))
    evict(recorder, drawn, 6, node=0, plan=1)
    evict(recorder, drawn, 60, node=1, plan=1)
    evict(recorder, drawn, 180, node=2, plan=1)
    figures = recorder.compute_result({}).figures
    assert (figures["evictions"], figures["bounces"]) == (3, 1)


@pytest.mark.parametrize(("minute", "bounces"), [(-5, 0), (5, 1)])
def test_a_pod_that_comes_back_has_bounced_unless_the_cluster_was_still_filling(
    minute: int, bounces: int
) -> None:
    drawn = scenario()
    recorder = recorded(drawn, flat(drawn, 30))
    at_ms = drawn.measured_ms + minute * MINUTE_MS
    plan, node = drawn.plans[0], drawn.machines[0].name
    again = replace(plan, pod=plan.pod.model_copy(update={"uid": f"{plan.pod.uid}.1"}))
    recorder.on_eviction(Eviction(plan.pod, node, at_ms - MINUTE_MS, again))
    recorder.on_request(again)
    recorder.on_pod_event(PodEvent(at_ms, "bound", again.pod.model_copy(update={"node": node})))
    assert recorder.compute_result({}).figures["bounces"] == bounces


def test_a_pod_waits_from_its_request_to_its_binding_or_to_the_end() -> None:
    drawn = scenario()
    recorder = recorded(drawn, flat(drawn, 30))
    first, second = drawn.plans[0], drawn.plans[1]
    recorder.on_request(first)
    recorder.on_request(second)
    bound = first.pod.model_copy(update={"node": drawn.machines[0].name})
    recorder.on_pod_event(PodEvent(drawn.measured_ms + 2 * MINUTE_MS, "bound", bound))
    figures = recorder.compute_result({}).figures
    assert figures["waiting_pods"] == 1
    assert figures["placed_pods"] == 1
    assert figures["waiting_pod_minutes"] == pytest.approx(2 + 30)


def test_a_prediction_is_compared_with_the_demand_of_five_minutes_later() -> None:
    drawn = scenario(nodes=2)
    recorder = Recorder(drawn)
    capacity = np.array([(node.millicores, node.memory_bytes) for node in drawn.machines], float)
    for minute in range(7):
        share = np.array([[_HOT if minute == PREDICTED_MINUTES else _COLD], [_COLD]])
        at_ms = drawn.measured_ms + minute * MINUTE_MS
        moment = Moment(at_ms, np.array([]), np.empty((0, 2)), share * capacity, share * capacity)
        recorder.record_minute(moment, [0.2, 0.0])
    bins = [item for item in recorder.compute_result({}).predictions if item.predictions]
    assert bins == [PredictionBin(2, 0.0, 0), PredictionBin(2, 0.4, 1)]
