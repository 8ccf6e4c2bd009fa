"""Rules in the closed loop see what a scheduler would know."""

import numpy as np

from simulation.closed_loop.rule_contender import RuleContender
from simulation.closed_loop.rules.view import Array, NodesView
from simulation.closed_loop.scenario import BEGIN_MS
from simulation.closed_loop.world import World
from tests.simulation.closed_loop.days import FirstWithRoom, scenario


def begin() -> tuple[World, RuleContender, FirstWithRoom]:
    world, rule = World(scenario()), FirstWithRoom()
    ruled = RuleContender("first", rule)
    ruled.begin(world)
    return world, ruled, rule


def steps(world: World, ruled: RuleContender, seconds: int) -> None:
    for now_ms in range(world.cluster.now_ms, BEGIN_MS + 1000 * seconds, 10_000):
        world.advance(now_ms)
        ruled.step(now_ms)


def test_usage_is_unknown_before_the_first_report_and_then_a_mean_of_five_minutes() -> None:
    world, ruled, rule = begin()
    steps(world, ruled, 10)
    assert rule.views == [] or np.isnan(rule.views[0].measured).all()
    usages = []
    for now_ms in range(BEGIN_MS + 10_000, BEGIN_MS + 1_800_000, 10_000):
        world.advance(now_ms)
        ruled.step(now_ms)
        if 0 in world.list_sampled_nodes(now_ms):
            usages.append(world.usage.measure(now_ms).node_usage[0])
    steps(world, ruled, 1_810)
    view = rule.views[-1]
    np.testing.assert_allclose(view.measured[0], np.mean(usages[-5:], axis=0))
    np.testing.assert_allclose(view.deviation[0], np.std(usages[-15:], axis=0))


def test_a_report_knows_the_pods_that_were_bound_a_minute_before_it() -> None:
    world, ruled, rule = begin()
    reported_ms = [-1] * len(world.scenario.machines)
    lag_ms = 1000 * world.scenario.parameters.lag_s
    between = 0
    for now_ms in range(BEGIN_MS, BEGIN_MS + 1_800_000, 10_000):
        world.advance(now_ms)
        ruled.step(now_ms)
        for node in (
            world.list_sampled_nodes(now_ms - lag_ms) if now_ms - lag_ms >= BEGIN_MS else ()
        ):
            reported_ms[node] = now_ms - lag_ms
        missing = np.zeros((len(reported_ms), 2))
        for node, machine in enumerate(world.scenario.machines):
            for running in world.cluster.kubelets.list_pods_on(machine.name):
                before_ms = reported_ms[node] - (running.pod.scheduled_at_ms or 0)
                between += (
                    20_000 <= before_ms < 60_000
                )  # it runs, but the report does not contain it
                if before_ms < 60_000:
                    missing[node] += (running.plan.requests["cpu"], running.plan.requests["memory"])
        if rule.views:
            assert rule.views[-1].unreported.tolist() == missing.tolist()
    assert between


def test_a_pod_without_room_waits_and_is_retried() -> None:
    class Never(FirstWithRoom):
        def __call__(
            self, request: Array, view: NodesView, random: np.random.Generator
        ) -> int | None:
            super().__call__(request, view, random)
            return None

    world, rule = World(scenario()), Never()
    ruled = RuleContender("never", rule)
    ruled.begin(world)
    steps(world, ruled, 600)
    waiting = len(world.cluster.waiting_pods)
    assert waiting > 5
    assert waiting < len(rule.views) <= 11 * waiting
