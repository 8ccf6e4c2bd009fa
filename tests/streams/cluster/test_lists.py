"""Full lists remove the nodes and pods that they do not contain."""

import pytest

from schemas.messages.lists import ListBegin, ListEnd
from streams.cluster import list_cleanup
from tests.streams.cluster.builders import (
    full,
    lifecycle,
    node,
    node_gone,
    pod,
    policy_record,
    request,
    tick,
)
from tests.streams.cluster.harness import cluster, only, outcomes, waiting


def test_nodes_that_a_full_list_lacks_are_gone() -> None:
    run = cluster(node("a"), node("b"))
    run.full_list("node-state", "1", node("b"), node("c"))
    assert [each.name for each in run.state.inventory.lay_out().nodes] == ["b", "c"]


def test_pods_that_a_full_list_lacks_are_gone_and_those_that_waited_are_answered() -> None:
    run = cluster(node("a"))
    run.say(lifecycle("running", full("bound"), "a"))
    assert outcomes(run.say(request(full("kept")), request(full("lost")))) == [
        ("kept", "waiting"), ("lost", "waiting"),
    ]  # fmt: skip
    made = run.full_list("pod-lifecycle", "1", lifecycle("seen", full("kept")))
    assert outcomes(made) == [("lost", "withdrawn"), ("kept", "placed")]
    assert made[0].message == "the pod no longer exists"


def test_a_reservation_of_a_pod_that_a_full_list_lacks_is_given_up() -> None:
    run = cluster(node("a"))
    run.say(request(full("gone")))
    made = only(run.full_list("pod-lifecycle", "1"))
    assert (made.outcome, made.node) == ("withdrawn", "a")


def test_what_came_after_the_list_began_is_not_missing_in_it() -> None:
    run = cluster(node("a", cpu="20"))
    run.say(ListBegin(cluster="test", list_id="1"), topic="pod-lifecycle")
    run.say(request("reserved"), lifecycle("bound", pod("bound"), "a"))
    assert run.say(ListEnd(cluster="test", list_id="1"), topic="pod-lifecycle") == []
    assert sorted(run.state.inventory.node_of_pod) == ["bound", "reserved"]


@pytest.mark.parametrize("restarts", [False, True])
def test_a_node_that_came_after_the_list_began_is_not_missing_in_it(restarts: bool) -> None:
    run = cluster(node("old"), node("back"), node("listed"))
    run.say(ListBegin(cluster="test", list_id="1"), topic="node-state")
    run.say(node("new"), node_gone("back"), node("back"), node("old"), node_gone("gone"))
    run.say(node("listed", list_id="1"))
    if restarts:
        run.restart()
    run.say(ListEnd(cluster="test", list_id="1"), topic="node-state")
    names = [each.name for each in run.state.inventory.lay_out().nodes]
    assert names == ["back", "listed", "new"]
    run.full_list("node-state", "2", node("listed"))
    assert [each.name for each in run.state.inventory.lay_out().nodes] == ["listed"]


def test_a_list_may_be_interrupted_by_a_restart() -> None:
    run = cluster(node("a"), policy_record("{initialBackoffSeconds: 60}"))
    run.say(request(full("reserved")), lifecycle("bound", pod("bound"), "b"))
    run.say(request(full("waits")))
    run.say(ListBegin(cluster="test", list_id="1"), topic="pod-lifecycle")
    run.say(lifecycle("seen", full("reserved"), list_id="1"))
    run.say(lifecycle("seen", full("waits"), list_id="1"))
    run.say(lifecycle("seen", pod("bound"), "b", list_id="1"))
    run.restart()
    assert run.say(ListEnd(cluster="test", list_id="1"), topic="pod-lifecycle") == []
    assert sorted(run.state.inventory.node_of_pod) == ["bound", "reserved"]
    assert waiting(run) == ["waits"]


def test_a_list_without_its_own_end_removes_nothing() -> None:
    run = cluster(node("a"))
    run.say(ListBegin(cluster="test", list_id="1"), topic="node-state")
    run.say(ListEnd(cluster="test", list_id="2"), topic="node-state")
    run.say(ListEnd(cluster="test", list_id="1"), topic="pod-lifecycle")
    assert list(run.state.inventory.nodes) == ["a"]
    run.restart()
    run.say(ListBegin(cluster="test", list_id="3"), topic="node-state")
    run.say(ListEnd(cluster="test", list_id="1"), topic="node-state")
    assert list(run.state.inventory.nodes) == ["a"]
    run.say(ListEnd(cluster="test", list_id="3"), topic="node-state")
    assert list(run.state.inventory.nodes) == []


@pytest.mark.parametrize("restarts", [False, True])
def test_what_a_list_lacks_is_removed_over_several_ticks_and_what_is_heard_of_meanwhile_stays(
    monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    monkeypatch.setattr(list_cleanup, "UNLISTED_PER_RECORD_MAX", 2)
    run = cluster(node("a", cpu="100"))
    run.say(*(lifecycle("running", pod(f"p{number}"), "a") for number in range(7)))
    run.full_list("pod-lifecycle", "1", lifecycle("seen", pod("p3"), "a"))
    assert sorted(run.state.inventory.node_of_pod) == ["p2", "p3", "p4", "p5", "p6"]
    if restarts:
        run.restart()
    run.say(lifecycle("running", pod("p6"), "a"))
    run.say(tick(1))
    if restarts:
        run.restart()
    run.say(tick(2), tick(3))
    assert sorted(run.state.inventory.node_of_pod) == ["p3", "p6"]
    assert run.state.inventory.lists.ending == {}


def test_a_list_that_begins_takes_the_place_of_one_whose_end_is_not_carried_out_yet(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(list_cleanup, "UNLISTED_PER_RECORD_MAX", 1)
    run = cluster(node("a", cpu="100"))
    run.say(*(lifecycle("running", pod(f"p{number}"), "a") for number in range(3)))
    run.full_list("pod-lifecycle", "1")
    run.say(ListBegin(cluster="test", list_id="2"), topic="pod-lifecycle")
    run.say(tick(1), lifecycle("seen", pod("p2"), "a", list_id="2"), tick(2))
    assert sorted(run.state.inventory.node_of_pod) == ["p1", "p2"]
    run.say(ListEnd(cluster="test", list_id="2"), topic="pod-lifecycle")
    run.say(tick(3))
    assert sorted(run.state.inventory.node_of_pod) == ["p2"]


@pytest.mark.parametrize("restarts", [False, True])
def test_nodes_that_a_list_lacks_are_removed_over_several_ticks(
    monkeypatch: pytest.MonkeyPatch, restarts: bool
) -> None:
    monkeypatch.setattr(list_cleanup, "UNLISTED_NODES_PER_RECORD_MAX", 2)
    run = cluster(*(node(f"n{number}") for number in range(6)))
    run.full_list("node-state", "1", node("n1"))
    assert [each.name for each in run.state.inventory.lay_out().nodes] == ["n1", "n3", "n4", "n5"]
    if restarts:
        run.restart()
    run.say(node("n5"))
    run.say(tick(1), tick(2))
    assert [each.name for each in run.state.inventory.lay_out().nodes] == ["n1", "n5"]
    assert run.state.inventory.lists.ending == {}
