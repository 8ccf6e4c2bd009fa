from typing import Any

import pytest

from schemas.messages.dead_letters import DeadLetter
from schemas.messages.metrics import PodLifetimes
from streams.cluster import state as state_module
from tests.streams.cluster.builders import (
    START_MS,
    aggregated,
    lifecycle,
    metric,
    node,
    node_gone,
    pod,
    pod_metric,
    policy_record,
    request,
    tick,
)
from tests.streams.migration.harness import Moving


@pytest.mark.parametrize(
    ("seconds", "refused"), [(-999, False), (0, False), (60, False), (60.001, True), (9e6, True)]
)
def test_a_metric_from_the_future_is_refused(seconds: float, refused: bool) -> None:
    world = Moving()
    world.say(tick(), node("other"))
    answer = world.ask(metric(seconds=seconds))
    assert isinstance(answer, DeadLetter) is refused
    if refused:
        assert answer.reason.startswith("node node-1: updated_at_ms is ")
    assert ("node-1" in world.state.inventory.nodes) is not refused


def test_an_impossible_metric_changes_nothing() -> None:
    world = Moving()
    world.ask(metric(cpu=5))
    refusal = world.ask(metric(cpu=2**63 - 1))
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
    world = Moving()
    world.ask(node(cpu="3", capacity={"cpu": "4", "memory": "32Gi"}))
    answer = world.ask(metric(**fields))
    assert isinstance(answer, DeadLetter) == (refused is not None)
    if refused is not None:
        assert answer.reason.startswith(f"node node-1: {refused}")
        world.ask(policy_record("compat: koordinator"))
        assert world.ask(metric(**fields)) == []


def test_a_node_that_was_removed_and_added_again_is_unknown() -> None:
    world = Moving()
    world.ask(tick())
    world.ask(node())
    world.ask(lifecycle("seen", pod("a", node="node-1")))
    world.ask(metric(cpu=7_000, pods=(pod_metric("a", cpu=7_000),)))
    world.ask(node_gone())
    world.ask(node(created_at_ms=START_MS + 60_000))
    world.ask(tick(120))
    here = world.state.inventory.nodes["node-1"]
    assert here.usage.metric is None
    assert here.statistics is not None
    assert here.statistics.lifetimes == {}
    answer = world.ask(metric(cpu=7_000, seconds=59))
    assert (answer.category, here.usage.metric) == ("late", None)
    world.ask(metric(cpu=10, seconds=61))
    assert here.usage.metric is not None


@pytest.mark.parametrize(
    ("column", "said"),
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
    column: dict[str, Any], said: str
) -> None:
    world = Moving()
    even = PodLifetimes(minutes=(5, 6), mean={"cpu": (1, 2)}, deviation={"cpu": (0, 3)})
    pods = (pod_metric("a", cpu=1), pod_metric("b", cpu=2))
    assert world.ask(metric(pods=pods, lifetimes=even)) == []
    refusal = world.ask(metric(cpu=7, pods=pods, lifetimes=even.model_copy(update=column)))
    assert refusal.category == "invalid"
    assert refusal.reason.startswith(f"node node-1: {said}")
    assert world.state.inventory.nodes["node-1"].usage.metric == metric(pods=pods)


def test_the_policy_limits_how_far_in_the_future_a_metric_may_be() -> None:
    world = Moving()
    world.ask(tick())
    world.ask(policy_record("metricFutureSeconds: 5"))
    assert world.ask(metric(seconds=6)).category == "future"


def test_nodes_beyond_the_limit_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_module, "NODES_MAX", 2)
    world = Moving()
    assert world.ask(node("a")) == world.ask(metric("b")) == []
    for message in (node("c"), metric("c")):
        answer = world.ask(message)
        assert answer.category == "limit"
        assert answer.reason == "node c exceeds the limit of 2 nodes per cluster"
    assert world.ask(node("b")) == world.ask(metric("a")) == []
    assert world.ask(node_gone("c")) == world.ask(metric("c", removed=True)) == []
    world.ask(node_gone("a"))
    world.ask(metric("a", removed=True))
    assert world.ask(node("c")) == []


def test_pods_beyond_the_limit_are_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_module, "PODS_MAX", 1)
    world = Moving()
    assert world.ask(lifecycle("bound", pod("p"), "a")) == []
    assert world.ask(lifecycle("bound", pod("q"), "a")).category == "limit"
    assert world.ask(lifecycle("running", pod("p"), "b")) == []
    assert world.ask(lifecycle("deleted", pod("p"), "b")) == []
    assert world.ask(lifecycle("bound", pod("q"), "a")) == []


def test_pods_without_a_node_are_accepted_beyond_the_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(state_module, "PODS_MAX", 1)
    world = Moving()
    world.ask(tick())
    assert world.ask(lifecycle("bound", pod("p"), "a")) == []
    (waiting,) = world.ask(request("q"))
    assert waiting.outcome == "waiting"
    assert world.ask(lifecycle("changed", pod("q"))) == []
    (ended,) = world.ask(lifecycle("deleted", pod("q")))
    assert ended.outcome == "withdrawn"
    assert world.ask(lifecycle("finished", pod("r"), "a")) == []


def test_the_same_policy_does_not_rebuild_the_index() -> None:
    world = Moving()
    world.ask(node())
    index = world.state.inventory.lay_out()
    generation = index.generation
    world.ask(policy_record("", reason="the defaults"))
    assert index.generation == generation
    world.ask(policy_record("reservationSeconds: 7"))
    assert index.generation == generation, "it says nothing else of nodes"
    world.ask(policy_record("loadAware: {nodeMetricExpirationSeconds: 7}"))
    assert index.generation > generation
