import sys
from types import FrameType

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from schemas.policy import read_policy
from streams.inventory.inventory import Inventory
from streams.inventory.pod_events import apply_lifecycle
from streams.pods.held_pod import HeldPod
from streams.pods.kind import kind_of
from streams.usage.node_usage import ExpectedNodeUsage
from tests.streams.builders import (
    at,
    lifecycle,
    metric,
    node,
    pod,
    policy_record,
    removed_node,
    request,
    tick,
)
from tests.streams.strategies import annotated_nodes, metrics, node_names
from tests.streams.world import World, count_calls


def inventory(document: str = "") -> Inventory:
    """An inventory at second 0."""
    here = Inventory(read_policy(document))
    here.advance(at(0))
    return here


def names(here: Inventory) -> list[str]:
    """Nodes that may be placed on."""
    return [node.name for node in here.update_index().nodes]


def test_a_node_that_returns_keeps_its_pods_and_loses_its_metric() -> None:
    here = inventory()
    here.apply_node(node("a"))
    here.apply_metric(metric("a", cpu=5))
    apply_lifecycle(here, lifecycle("running", pod(cpu="3"), "a"))
    here.apply_node(removed_node("a"))
    assert names(here) == []
    here.apply_node(node("a", cpu="4"))
    placed = here.update_index().nodes[0]
    assert (placed.requested["cpu"], placed.allocatable["cpu"]) == (3000, 4000)
    assert (placed.usage.metric, here.freshness.nodes) == (None, 0)


def test_a_node_without_state_metric_and_pods_is_forgotten() -> None:
    here = inventory()
    here.apply_node(node("a"))
    here.apply_metric(metric("a"))
    apply_lifecycle(here, lifecycle("running", pod(), "a"))
    here.apply_node(removed_node("a"))
    here.apply_metric(metric("a", removed=True))
    assert list(here.nodes) == ["a"]
    here.changed_nodes.clear()
    apply_lifecycle(here, lifecycle("deleted", pod(), "a"))
    assert here.nodes == {}
    assert list(here.changed_nodes) == ["a"]


@pytest.mark.parametrize("order", ["goes first", "pod goes last", "never named"])
def test_a_node_that_has_gone_is_forgotten_when_its_metric_has_expired(order: str) -> None:
    here = inventory()
    if order != "never named":
        here.apply_node(node("a"))
        here.apply_node(removed_node("a"))
    # A metric that was under way when the node went.
    here.apply_metric(metric("a", seconds=0))
    if order == "pod goes last":
        apply_lifecycle(here, lifecycle("running", pod(), "a"))
    here.advance(at(100))
    here.forget_expired_metrics()
    assert list(here.nodes) == ["a"]
    here.advance(at(1_000))
    if order == "pod goes last":
        here.forget_expired_metrics()
        assert list(here.nodes) == ["a"]
        here.release("pod-1")
    here.changed_nodes.clear()
    here.forget_expired_metrics()
    assert here.nodes == {}
    assert list(here.changed_nodes) == ["a"], "its row is removed"


def test_a_node_that_is_back_is_not_forgotten() -> None:
    here = inventory()
    here.apply_node(node("a"))
    here.apply_metric(metric("a", seconds=0))
    here.apply_node(removed_node("a"))
    here.apply_node(node("a"))
    here.advance(at(1_000))
    here.forget_expired_metrics()
    assert list(here.nodes) == ["a"]


def test_a_metric_turns_stale_with_time_and_fresh_by_a_newer_one() -> None:
    here = inventory()
    here.apply_node(node("a"))
    here.apply_metric(metric("a", seconds=0))
    here.update_index()
    here.advance(at(179))
    assert here.freshness.nodes == 1
    here.advance(at(180))
    assert here.freshness.nodes == 0
    here.apply_metric(metric("a", seconds=100))
    assert here.freshness.nodes == 1
    here.advance(at(280))
    assert here.freshness.nodes == 0


def test_an_older_metric_that_comes_late_expires_at_its_own_time() -> None:
    here = inventory()
    here.apply_node(node("a"))
    here.update_index()
    here.apply_metric(metric("a", seconds=50))
    here.apply_metric(metric("a", seconds=10))
    here.advance(at(190))
    assert here.freshness.nodes == 0


def test_another_policy_computes_freshness_again() -> None:
    here = inventory()
    here.apply_node(node("a"))
    here.apply_metric(metric("a", seconds=0))
    here.update_index()
    here.advance(at(100))
    here.set_policy(read_policy("loadAware: {nodeMetricExpirationSeconds: 60}"))
    here.update_index()
    assert here.freshness.nodes == 0
    here.set_policy(read_policy(""))
    here.update_index()
    assert here.freshness.nodes == 1
    here.advance(at(180))
    assert here.freshness.nodes == 0


_Event = NodeState | NodeMetric | int


@given(st.lists(st.one_of(annotated_nodes(), node_names().map(removed_node), metrics(), st.sampled_from((1, 60, 170))), max_size=20))  # fmt: skip
def test_fresh_nodes_are_counted_as_they_are(history: list[_Event]) -> None:
    here = inventory()
    for event in history:
        match event:
            case NodeState():
                here.apply_node(event)
            case NodeMetric():
                here.apply_metric(event)
            case int():
                here.advance(here.now_ms + event * 1000)
        nodes = here.update_index().nodes
        assert here.freshness.nodes == sum(not node.usage.is_expired(here.now_ms) for node in nodes)


def test_a_node_that_comes_or_goes_is_judged_without_the_others() -> None:
    world = World(tick(), *(node(f"node-{number}") for number in range(2_000)))
    world.send(request(pod("first")))
    calls = 0

    def count(_frame: FrameType, event: str, _arg: object) -> None:
        nonlocal calls
        calls += event == "call"

    before = sys.getprofile()
    for number, change in enumerate((node("node-1000a"), removed_node("node-1000"))):
        world.send(change)
        sys.setprofile(count)
        try:
            world.send(request(pod(f"next-{number}")))
        finally:
            sys.setprofile(before)
    assert world.state.inventory.index.size == 2_000
    assert calls < 8_000, "two calls for each node and change"


def test_a_listed_finished_pod_keeps_its_room_until_its_finished_event() -> None:
    """Koordinator overlooks such an event; see docs/reference/upstream.md A6."""
    here = inventory()
    apply_lifecycle(here, lifecycle("running", pod(), "a"))
    apply_lifecycle(here, lifecycle("seen", pod(phase="Succeeded"), "a"))
    assert here.node_of_pod == {"pod-1": "a"}
    apply_lifecycle(here, lifecycle("changed", pod(phase="Succeeded"), "a"))
    assert here.node_of_pod == {}


def test_a_finished_pod_never_seen_before_takes_no_room() -> None:
    here = inventory()
    apply_lifecycle(here, lifecycle("seen", pod(phase="Failed"), "a"))
    assert here.node_of_pod == {}


def test_a_reservation_that_is_confirmed_has_no_end() -> None:
    here = inventory()
    of = pod()
    held = HeldPod(of, kind_of(of), at(0), decision_id="decision-1", expires_at_ms=at(300))
    here.hold("a", held, first_seen=True)
    here.set_expiry("pod-1", None)
    entry = here.find_held("pod-1")
    assert entry is not None
    assert entry[1].expires_at_ms is None
    assert entry[1].decision_id == "decision-1"
    here.set_expiry("another", None)


def test_a_policy_with_the_same_estimation_recomputes_nothing(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(tick(), node("a"), metric("a"))
    world.send(lifecycle("running", pod("p"), "a"))
    calls = count_calls(monkeypatch, ExpectedNodeUsage, "_make_assigned")
    world.state.inventory.update_index()
    generation = world.state.inventory.index.generation
    world.send(policy_record("mode: enforce"))
    assert world.state.inventory.index.generation == generation
    world.send(policy_record("loadAware: {usageThresholds: {cpu: 40}}"))
    assert world.state.inventory.index.generation > generation
    assert not calls
    world.send(policy_record("loadAware: {estimatedScalingFactors: {cpu: 40}}"))
    assert calls.total() == 1


def test_a_policy_with_another_estimation_recomputes_every_pod() -> None:
    here = inventory("loadAware: {estimatedScalingFactors: {cpu: 100, memory: 100}}")
    for name in ("a", "b"):
        here.apply_node(node(name))
        apply_lifecycle(here, lifecycle("running", pod(f"pod-{name}", cpu="1"), name))
    here.set_policy(read_policy("loadAware: {estimatedScalingFactors: {cpu: 50, memory: 50}}"))
    assert [node.usage.delta[0] for node in here.update_index().nodes] == [500, 500]
    assert set(here.touched) == {"a", "b"}
