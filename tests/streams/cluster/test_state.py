from typing import Any

import pytest

from schemas.messages.metrics import PodLifetimes
from streams.cluster import state as state_module
from tests.streams.builders import (
    START_MS,
    aggregated,
    lifecycle,
    metric,
    node,
    pod,
    pod_metric,
    policy_record,
    removed_node,
    request,
    tick,
)
from tests.streams.world import World, only


@pytest.mark.parametrize(
    ("seconds", "refused"), [(-999, False), (0, False), (60, False), (60.001, True), (9e6, True)]
)
def test_a_metric_from_the_future_is_refused(seconds: float, refused: bool) -> None:
    world = World(tick(), node("other"))
    letters = world.send_refused(metric(seconds=seconds))
    assert len(letters) == refused
    assert all(letter.reason.startswith("node node-1: updated_at_ms is ") for letter in letters)
    assert ("node-1" in world.state.inventory.nodes) is not refused


def test_an_impossible_metric_changes_nothing() -> None:
    world = World()
    world.send(metric(cpu=5))
    (refusal,) = world.send_refused(metric(cpu=2**63 - 1))
    assert (refusal.category, refusal.reason[:24]) == ("limit", "node node-1: usage, cpu:")
    assert world.state.inventory.nodes["node-1"].usage.metric == metric(cpu=5)


@pytest.mark.parametrize(
    ("fields", "refused"),
    [
        ({"cpu": 4_200}, None),  # above allocatable, below capacity
        ({"cpu": 4_201}, "usage, cpu: measured 4201, but the node has 4000"),
        (
            {"aggregated": (aggregated(300, p95={"cpu": 9_000}),)},
            "aggregated p95, cpu: measured 9000",
        ),
        ({"pods": (pod_metric("a", cpu=9_000),)}, "usage of a pod, cpu: measured 9000"),
    ],
)
def test_a_metric_above_the_capacity_of_the_node_is_refused(
    fields: dict[str, Any], refused: str | None
) -> None:
    world = World()
    world.send(node(cpu="3", capacity={"cpu": "4", "memory": "32Gi"}))
    letters = world.send_refused(metric(**fields))
    assert len(letters) == (refused is not None)
    if refused is not None:
        assert letters[0].reason.startswith(f"node node-1: {refused}")
        world.send(policy_record("compat: koordinator"), metric(**fields))


def test_a_node_that_was_removed_and_added_again_is_unknown() -> None:
    world = World()
    world.send(tick())
    world.send(node())
    world.send(lifecycle("seen", pod("a", node="node-1")))
    world.send(metric(cpu=7_000, pods=(pod_metric("a", cpu=7_000),)))
    world.send(removed_node())
    world.send(node(created_at_ms=START_MS + 60_000))
    world.send(tick(120))
    here = world.state.inventory.nodes["node-1"]
    assert here.usage.metric is None
    assert here.statistics is not None
    assert here.statistics.lifetimes == {}
    (answer,) = world.send_refused(metric(cpu=7_000, seconds=59))
    assert (answer.category, here.usage.metric) == ("late", None)
    world.send(metric(cpu=10, seconds=61))
    assert here.usage.metric is not None


def test_metrics_of_a_clock_that_was_set_back_are_not_late() -> None:
    world = World(node(), metric(cpu=7_000, seconds=3_600), tick(60))
    world.send(metric(cpu=10, seconds=60))
    assert world.state.inventory.nodes["node-1"].usage.metric == metric(cpu=10, seconds=60)


@pytest.mark.parametrize(
    ("column", "text"),
    [
        (
            {"minutes": (5, 5, 5)},
            "lifetimes, minutes: found 3 entries; expected 2, one per pod",
        ),
        ({"mean": {"cpu": (1,)}}, "lifetimes, mean, cpu: found 1 entries; expected 2"),
        ({"deviation": {"cpu": ()}}, "lifetimes, deviation, cpu: found 0 entries; expected 2"),
    ],
)
def test_a_metric_with_lifetimes_of_other_pods_changes_nothing(
    column: dict[str, Any], text: str
) -> None:
    world = World()
    even = PodLifetimes(minutes=(5, 6), mean={"cpu": (1, 2)}, deviation={"cpu": (0, 3)})
    pods = (pod_metric("a", cpu=1), pod_metric("b", cpu=2))
    world.send(metric(pods=pods, lifetimes=even))
    (refusal,) = world.send_refused(
        metric(cpu=7, pods=pods, lifetimes=even.model_copy(update=column))
    )
    assert refusal.category == "invalid"
    assert refusal.reason.startswith(f"node node-1: {text}")
    assert world.state.inventory.nodes["node-1"].usage.metric == metric(pods=pods)


def test_the_policy_limits_how_far_in_the_future_a_metric_may_be() -> None:
    world = World()
    world.send(tick())
    world.send(policy_record("metricFutureSeconds: 5"))
    assert world.send_refused(metric(seconds=6))[0].category == "future"


def test_nodes_beyond_the_limit_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_module, "NODES_MAX", 2)
    world = World()
    world.send(node("a"), metric("b"))
    for message in (node("c"), metric("c")):
        (answer,) = world.send_refused(message)
        assert answer.category == "limit"
        assert answer.reason == "node c exceeds the limit of 2 nodes per cluster"
    world.send(node("b"), metric("a"))
    world.send(removed_node("c"), metric("c", removed=True))
    world.send(removed_node("a"))
    world.send(metric("a", removed=True))
    world.send(node("c"))


def test_pods_beyond_the_limit_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_module, "PODS_MAX", 1)
    world = World()
    world.send(lifecycle("bound", pod("p"), "a"))
    assert world.send_refused(lifecycle("bound", pod("q"), "a"))[0].category == "limit"
    world.send(lifecycle("running", pod("p"), "b"))
    world.send(lifecycle("deleted", pod("p"), "b"))
    world.send(lifecycle("bound", pod("q"), "a"))


def test_pods_without_a_node_are_accepted_beyond_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_module, "PODS_MAX", 1)
    world = World()
    world.send(tick())
    world.send(lifecycle("bound", pod("p"), "a"))
    waiting = only(world.send(request("q")))
    assert waiting.outcome == "waiting"
    world.send(lifecycle("changed", pod("q")))
    ended = only(world.send(lifecycle("deleted", pod("q"))))
    assert ended.outcome == "withdrawn"
    world.send(lifecycle("finished", pod("r"), "a"))


def test_the_same_policy_does_not_rebuild_the_index() -> None:
    world = World()
    world.send(node())
    index = world.state.inventory.update_index()
    generation = index.generation
    world.send(policy_record("", reason="the defaults"))
    assert index.generation == generation
    world.send(policy_record("reservationSeconds: 7"))
    assert index.generation == generation, "it says nothing else of nodes"
    world.send(policy_record("loadAware: {nodeMetricExpirationSeconds: 7}"))
    assert index.generation > generation
