"""Filter NodeName."""

from hypothesis import given

from schemas.messages.pods import Pod
from streams.inventory.node import Node
from streams.pods.kind import Kind
from tests.streams.builders import bare_kind, bare_node
from tests.streams.cluster.oracle import check_filter
from tests.streams.strategies import Event, histories, wanted_kinds
from tests.streams.world import CoreWorld, filter_world


def follower(*names: str) -> CoreWorld:
    return filter_world("NodeName", *(bare_node(name) for name in names))


def test_a_pod_that_requires_a_node_gets_no_other() -> None:
    nodes = follower("a", "b", "c")
    assert nodes.passing(bare_kind(required_node="b")) == ["b"]
    assert nodes.reasons(bare_kind(required_node="b")) == {
        "a": "node(s) didn't match the requested node name",
        "b": None,
        "c": "node(s) didn't match the requested node name",
    }


def test_the_node_that_a_pod_was_bound_to_is_no_requirement() -> None:
    bound = bare_kind(node="a")
    assert follower("a", "b").passing(bound) == ["a", "b"]


@given(histories(), wanted_kinds())
def test_mask_and_reasons_follow_every_change(history: list[Event], kinds: list[Kind]) -> None:
    def accepts(pod: Pod, node: Node) -> bool:
        return pod.required_node in (None, node.name)

    check_filter("NodeName", history, kinds, accepts)
