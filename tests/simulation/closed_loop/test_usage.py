"""Usage of pods as arrays: sums per node, saturation, and pods that start and end."""

from dataclasses import replace

import numpy as np
import pytest

from simulation.closed_loop.scenario import BEGIN_MS
from simulation.closed_loop.usage import get_plan_index
from simulation.closed_loop.world import World
from simulation.cluster.kubelet import GRACE_MS, START_MS
from tests.simulation.closed_loop.days import scenario


def place_pods(world: World, count: int, node: int = 0) -> list[str]:
    plans = world.scenario.plans[:count]
    for plan in plans:
        world.cluster.request_node(plan)
        assert world.cluster.place(plan, world.scenario.machines[node].name) is None
    return [plan.pod.uid for plan in plans]


def test_the_demand_of_a_node_is_the_sum_of_its_pods() -> None:
    drawn = scenario()
    world = World(drawn)
    place_pods(world, 3)
    now_ms = BEGIN_MS + START_MS
    moment = world.usage.measure(now_ms)
    demand = drawn.demands.compute_cpu(np.array([0, 1, 2]), START_MS)
    assert moment.demand[0, 0] == pytest.approx(demand.sum())
    assert (moment.demand[1:] == 0).all()
    assert sorted(moment.pod_usage[:, 0].tolist()) == pytest.approx(sorted(demand.tolist()))


def test_a_saturated_node_reduces_the_usage_of_all_pods_equally() -> None:
    drawn = scenario()
    heavy = replace(drawn.demands, cpu_millicores=drawn.demands.cpu_millicores * 1000 + 1e6)
    world = World(replace(drawn, demands=heavy))
    place_pods(world, 3)
    moment = world.usage.measure(BEGIN_MS + START_MS)
    capacity = drawn.machines[0].millicores
    assert moment.demand[0, 0] > capacity
    assert moment.node_usage[0, 0] == capacity
    assert moment.pod_usage[:, 0].sum() == pytest.approx(capacity)
    demand = heavy.compute_cpu(np.array([0, 1, 2]), START_MS)
    assert sorted(moment.pod_usage[:, 0] / capacity) == pytest.approx(sorted(demand / demand.sum()))


def test_the_usage_of_an_evicted_pod_is_unchanged_until_its_deletion() -> None:
    world = World(scenario())
    (uid,) = place_pods(world, 1)
    world.advance(BEGIN_MS + START_MS)
    world.cluster.evict(uid)
    (replacement,) = [
        pod for pod in world.cluster.waiting_pods.values() if get_plan_index(pod.pod.uid) == 0
    ]
    assert replacement.pod.uid != uid
    assert world.cluster.place(replacement, world.scenario.machines[1].name) is None
    world.advance(BEGIN_MS + START_MS + GRACE_MS - 1)
    moment = world.usage.measure(world.cluster.now_ms)
    assert moment.demand[0, 0] == moment.demand[1, 0] > 0
    world.advance(BEGIN_MS + START_MS + GRACE_MS)
    moment = world.usage.measure(world.cluster.now_ms)
    assert moment.demand[0, 0] == 0
    assert moment.demand[1, 0] > 0
