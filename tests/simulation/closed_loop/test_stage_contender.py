"""The stages in the closed loop: their full path with the limits of production."""

from dataclasses import replace

import pytest

from simulation.closed_loop.scenario import BEGIN_MS, BUDGETED, CLUSTER
from simulation.closed_loop.stage_contender import StageContender
from simulation.closed_loop.world import World, run
from simulation.cluster.cluster import Eviction, Observer
from streams.in_process.pipeline import LocalPipeline
from tests.simulation.closed_loop.days import EAGER, ignore, scenario, stages


class Evictions(Observer):
    """Records evictions and the number of healthy pods of the workload at that time."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.seen: list[Eviction] = []
        self.healthy_left: list[int | None] = []

    def on_eviction(self, eviction: Eviction) -> None:
        self.seen.append(eviction)
        self.healthy_left.append(self.world.cluster.owners.count_allowed_disruptions(eviction.pod))


def test_the_state_of_the_stages_matches_the_cluster() -> None:
    """Compares requests, pods and usage of every node after an hour of changes."""
    drawn = scenario(load=0.5)
    world, pipeline = World(drawn), LocalPipeline()
    ours = StageContender("ours", "mode: enforce\n", pipeline)
    ours.begin(world)
    for now_ms in range(BEGIN_MS, drawn.end_ms, 10_000):
        world.advance(now_ms)
        ours.step(now_ms)
    inventory = pipeline.cluster.clusters[CLUSTER].inventory
    for machine in drawn.machines:
        node = inventory.nodes[machine.name]
        really = world.cluster.kubelets.sum_requests(machine.name)
        assert {name: node.requested[name] for name in really} == really
        metric = node.usage.metric
        assert metric is not None
        assert metric.updated_at_ms is not None
        assert metric.updated_at_ms > drawn.end_ms - 90_000


@pytest.mark.slow
def test_evictions_respect_budgets_and_replacements_request_a_node() -> None:
    drawn = scenario(2, load=0.6, budgeted_share=1.0)
    world = World(drawn)
    seen = Evictions(world)
    world.cluster.observers.append(seen)
    ours = stages(EAGER)
    ours.begin(world)
    for now_ms in range(BEGIN_MS, drawn.end_ms, 10_000):
        world.advance(now_ms)
        ours.step(now_ms)
    assert len(seen.seen) > 3
    assert {command.pod.namespace for command in seen.seen} == {BUDGETED}
    assert all(command.replacement is not None for command in seen.seen)
    # The budget allows one disruption, so the other pods must stay.
    assert set(seen.healthy_left) == {0}
    assert ours.dead_letters == []


def test_a_policy_that_observes_evicts_nobody() -> None:
    result = run(
        scenario(2, load=0.6), stages(EAGER.replace("mode: enforce", "mode: observe")), ignore
    )
    assert result.figures["evictions"] == 0
    assert result.counts["evict_dry"] > 0


def test_a_pod_that_no_node_may_take_is_refused_and_counted() -> None:
    drawn = scenario()
    first, *others = drawn.plans
    needy = first.pod.model_copy(update={"unsupported": ("zonal volume",)})
    plans = (replace(first, pod=needy), *others)
    result = run(replace(drawn, plans=plans), stages(), ignore)
    assert result.counts["decision_refused"] == 1
    assert result.figures["waiting_pods"] == 1
