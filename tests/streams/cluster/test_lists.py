"""Full lists remove the nodes and pods that they do not contain."""

import pytest

from schemas.messages.lists import ListBegin, ListEnd
from streams.cluster import list_cleanup
from tests.streams.builders import (
    big_pod,
    lifecycle,
    node,
    pod,
    policy_record,
    removed_node,
    request,
    tick,
)
from tests.streams.world import World, only, outcomes


def test_nodes_that_a_full_list_lacks_are_removed() -> None:
    world = World(tick(), node("a"), node("b"))
    world.full_list("node-state", node("b"), node("c"))
    assert [node.name for node in world.state.inventory.update_index().nodes] == ["b", "c"]


def test_pods_that_a_full_list_lacks_are_removed_and_waiting_ones_get_a_decision() -> None:
    world = World(tick(), node("a"))
    world.send(lifecycle("running", big_pod("bound"), "a"))
    assert outcomes(world.send(request(big_pod("kept")), request(big_pod("lost")))) == [
        ("kept", "waiting"), ("lost", "waiting"),
    ]  # fmt: skip
    decisions = world.full_list("pod-lifecycle", lifecycle("seen", big_pod("kept")))
    assert outcomes(decisions) == [("lost", "withdrawn"), ("kept", "placed")]
    assert decisions[0].message == "the pod no longer exists"


def test_a_reservation_of_a_pod_that_a_full_list_lacks_is_given_up() -> None:
    world = World(tick(), node("a"))
    world.send(request(big_pod("gone")))
    decision = only(world.full_list("pod-lifecycle"))
    assert (decision.outcome, decision.node) == ("withdrawn", "a")


def test_pods_reported_after_the_list_began_stay() -> None:
    world = World(tick(), node("a", cpu="20"))
    world.send(ListBegin(cluster="test", list_id="1"), topic="pod-lifecycle")
    world.send(request("reserved"), lifecycle("bound", pod("bound"), "a"))
    assert world.send(ListEnd(cluster="test", list_id="1"), topic="pod-lifecycle") == []
    assert sorted(world.state.inventory.node_of_pod) == ["bound", "reserved"]


@pytest.mark.parametrize("restarts", [False, True])
def test_nodes_reported_after_the_list_began_stay(restarts: bool) -> None:
    world = World(tick(), node("old"), node("back"), node("listed"))
    world.send(ListBegin(cluster="test", list_id="1"), topic="node-state")
    world.send(node("new"), removed_node("back"), node("back"), node("old"), removed_node("gone"))
    world.send(node("listed", list_id="1"))
    if restarts:
        world.restart()
    world.send(ListEnd(cluster="test", list_id="1"), topic="node-state")
    names = [node.name for node in world.state.inventory.update_index().nodes]
    assert names == ["back", "listed", "new"]
    world.full_list("node-state", node("listed"))
    assert [node.name for node in world.state.inventory.update_index().nodes] == ["listed"]


def test_a_list_may_be_interrupted_by_a_restart() -> None:
    world = World(tick(), node("a"), policy_record("{initialBackoffSeconds: 60}"))
    world.send(request(big_pod("reserved")), lifecycle("bound", pod("bound"), "b"))
    world.send(request(big_pod("waits")))
    world.send(ListBegin(cluster="test", list_id="1"), topic="pod-lifecycle")
    world.send(lifecycle("seen", big_pod("reserved"), list_id="1"))
    world.send(lifecycle("seen", big_pod("waits"), list_id="1"))
    world.send(lifecycle("seen", pod("bound"), "b", list_id="1"))
    world.restart()
    assert world.send(ListEnd(cluster="test", list_id="1"), topic="pod-lifecycle") == []
    assert sorted(world.state.inventory.node_of_pod) == ["bound", "reserved"]
    assert world.waiting == ["waits"]


def test_a_list_without_its_own_end_removes_nothing() -> None:
    world = World(tick(), node("a"))
    world.send(ListBegin(cluster="test", list_id="1"), topic="node-state")
    world.send(ListEnd(cluster="test", list_id="2"), topic="node-state")
    world.send(ListEnd(cluster="test", list_id="1"), topic="pod-lifecycle")
    assert list(world.state.inventory.nodes) == ["a"]
    world.restart()
    world.send(ListBegin(cluster="test", list_id="3"), topic="node-state")
    world.send(ListEnd(cluster="test", list_id="1"), topic="node-state")
    assert list(world.state.inventory.nodes) == ["a"]
    world.send(ListEnd(cluster="test", list_id="3"), topic="node-state")
    assert list(world.state.inventory.nodes) == []


@pytest.mark.parametrize("restarts", [False, True])
def test_unlisted_pods_are_removed_over_several_ticks_unless_reported_meanwhile(
    monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    monkeypatch.setattr(list_cleanup, "UNLISTED_PER_RECORD_MAX", 2)
    world = World(tick(), node("a", cpu="100"))
    world.send(*(lifecycle("running", pod(f"p{number}"), "a") for number in range(7)))
    world.full_list("pod-lifecycle", lifecycle("seen", pod("p3"), "a"))
    assert sorted(world.state.inventory.node_of_pod) == ["p2", "p3", "p4", "p5", "p6"]
    if restarts:
        world.restart()
    world.send(lifecycle("running", pod("p6"), "a"))
    world.send(tick(1))
    if restarts:
        world.restart()
    world.send(tick(2), tick(3))
    assert sorted(world.state.inventory.node_of_pod) == ["p3", "p6"]
    assert world.state.inventory.lists.ending == {}


def test_a_new_list_replaces_one_whose_cleanup_is_not_finished(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(list_cleanup, "UNLISTED_PER_RECORD_MAX", 1)
    world = World(tick(), node("a", cpu="100"))
    world.send(*(lifecycle("running", pod(f"p{number}"), "a") for number in range(3)))
    world.full_list("pod-lifecycle")
    world.send(ListBegin(cluster="test", list_id="2"), topic="pod-lifecycle")
    world.send(tick(1), lifecycle("seen", pod("p2"), "a", list_id="2"), tick(2))
    assert sorted(world.state.inventory.node_of_pod) == ["p1", "p2"]
    world.send(ListEnd(cluster="test", list_id="2"), topic="pod-lifecycle")
    world.send(tick(3))
    assert sorted(world.state.inventory.node_of_pod) == ["p2"]


@pytest.mark.parametrize("restarts", [False, True])
def test_unlisted_nodes_are_removed_over_several_ticks_unless_reported_meanwhile(
    monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    monkeypatch.setattr(list_cleanup, "UNLISTED_NODES_PER_RECORD_MAX", 2)
    world = World(tick(), *(node(f"n{number}") for number in range(6)))
    world.full_list("node-state", node("n1"))
    names = [node.name for node in world.state.inventory.update_index().nodes]
    assert names == ["n1", "n3", "n4", "n5"]
    if restarts:
        world.restart()
    world.send(node("n5"))
    world.send(tick(1), tick(2))
    assert [node.name for node in world.state.inventory.update_index().nodes] == ["n1", "n5"]
    assert world.state.inventory.lists.ending == {}
