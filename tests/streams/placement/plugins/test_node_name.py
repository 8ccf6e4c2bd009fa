"""Filter NodeName."""

from hypothesis import given

from schemas.nodes import NodeState
from schemas.pods import Pod
from streams.inventory.kind import Kind, kind_of
from streams.inventory.node import Node
from streams.placement.plugins.node_name import NodeName
from tests.streams.placement.plugins.history import (
    Event,
    Follower,
    check_history,
    histories,
    new_node,
    wanted,
)


def follower(*names: str) -> Follower:
    states = (NodeState(cluster="test", node=name, event="added") for name in names)
    return Follower(NodeName(), *map(new_node, states))


def requiring(node: str | None) -> Kind:
    return kind_of(Pod(namespace="default", name="p", uid="p", required_node=node))


def test_a_pod_that_requires_a_node_gets_no_other() -> None:
    nodes = follower("a", "b", "c")
    assert nodes.passing(requiring("b")) == ["b"]
    assert nodes.reasons(requiring("b")) == {
        "a": "node(s) didn't match the requested node name",
        "b": None,
        "c": "node(s) didn't match the requested node name",
    }


def test_a_pod_that_requires_a_node_that_is_not_there_gets_none() -> None:
    assert follower("a", "b").passing(requiring("c")) == []


def test_a_pod_that_requires_no_node_costs_nothing() -> None:
    nodes = follower("a", "b")
    assert nodes.plugin.mask(nodes.plugin.prepare(requiring(None))) is None


def test_the_node_that_a_pod_was_bound_to_is_no_requirement() -> None:
    bound = kind_of(Pod(namespace="default", name="p", uid="p", node="a"))
    assert follower("a", "b").passing(bound) == ["a", "b"]


@given(histories(), wanted())
def test_mask_and_reasons_follow_every_change(history: list[Event], kinds: list[Kind]) -> None:
    def accepts(pod: Pod, node: Node) -> bool:
        return pod.required_node in (None, node.name)

    check_history(NodeName(), history, kinds, accepts)
