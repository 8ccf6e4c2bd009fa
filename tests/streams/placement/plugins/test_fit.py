"""Filter NodeResourcesFit."""

import pytest
from hypothesis import given

from schemas.nodes import NodeState
from schemas.pods import Container, Pod
from schemas.quantities import amounts
from streams.inventory.demand import pod_demand
from streams.inventory.kind import Kind, kind_of
from streams.inventory.node import Node
from streams.placement.plugins import fit
from streams.placement.plugins.fit import NodeResourcesFit, requests_of
from tests.streams.placement.plugins.history import (
    Event,
    Follower,
    Placed,
    check_history,
    histories,
    hold,
    new_node,
    wanted,
)


def pod(uid: str = "p", **requests: str) -> Pod:
    return Pod(namespace="default", name=uid, uid=uid, containers=(Container(requests=requests),))


def asking(requests: dict[str, str]) -> Kind:
    return kind_of(pod(**requests))


def state(name: str, allocatable: dict[str, str]) -> NodeState:
    return NodeState(cluster="test", node=name, event="added", allocatable=allocatable)


def reason(allocatable: dict[str, str], requests: dict[str, str], *held: Pod) -> str | None:
    """Why a node refuses; the mask must say the same."""
    node = new_node(state("a", allocatable))
    for other in held:
        hold(node, other)
    nodes = Follower(NodeResourcesFit(), node)
    refused = nodes.reasons(asking(requests))["a"]
    assert nodes.passing(asking(requests)) == (["a"] if refused is None else [])
    return refused


@pytest.mark.parametrize(
    ("allocatable", "requests", "expected"),
    [
        ({"cpu": "1", "memory": "1Gi", "pods": "1"}, {"cpu": "1", "memory": "1Gi"}, None),
        ({"cpu": "999m", "pods": "1"}, {"cpu": "1"}, "Insufficient cpu"),
        ({"cpu": "1", "memory": "1023Mi", "pods": "1"}, {"memory": "1Gi"}, "Insufficient memory"),
        ({"cpu": "1", "pods": "1"}, {"memory": "1"}, "Insufficient memory"),
        ({"pods": "1"}, {"cpu": "0", "memory": "0", "example.com/x": "0"}, None),
        ({"pods": "1"}, {}, None),
        ({"pods": "0"}, {}, "Too many pods"),
        ({"cpu": "1"}, {}, "Too many pods"),
        ({"pods": "1"}, {"ephemeral-storage": "1"}, "Insufficient ephemeral-storage"),
        ({"pods": "1", "nvidia.com/gpu": "1"}, {"nvidia.com/gpu": "1"}, None),
        ({"pods": "1"}, {"nvidia.com/gpu": "1"}, "Insufficient nvidia.com/gpu"),
        # Every pod is one pod, whatever it says.
        ({"pods": "1"}, {"pods": "7"}, None),
    ],
)
def test_a_pod_fits_when_all_that_it_requests_is_free(
    allocatable: dict[str, str], requests: dict[str, str], expected: str | None
) -> None:
    assert reason(allocatable, requests) == expected


def test_what_is_held_is_not_free() -> None:
    offer = {"cpu": "4", "memory": "8Gi", "pods": "3"}
    held = (pod("q", cpu="1500m"), pod("r", cpu="1", memory="8Gi"))
    assert reason(offer, {"cpu": "1500m"}, *held) is None
    assert reason(offer, {"cpu": "1501m"}, *held) == "Insufficient cpu"
    assert reason(offer, {"memory": "1"}, *held) == "Insufficient memory"
    assert reason(offer, {}, *held, pod("s")) == "Too many pods"


def test_a_node_that_holds_more_than_it_has_takes_pods_that_ask_for_none_of_it() -> None:
    offer = {"cpu": "1", "memory": "8Gi", "pods": "9"}
    assert reason(offer, {"cpu": "0", "memory": "1Gi"}, pod("q", cpu="2")) is None
    assert reason(offer, {"cpu": "1m"}, pod("q", cpu="2")) == "Insufficient cpu"


def test_reasons_come_in_a_fixed_order() -> None:
    requests = {"b/x": "1", "memory": "1", "a/x": "1", "ephemeral-storage": "1", "cpu": "1"}
    assert [name for name, _ in requests_of(asking(requests))] == [
        "pods", "cpu", "memory", "ephemeral-storage", "a/x", "b/x",
    ]  # fmt: skip
    assert reason({}, requests) == "Too many pods"
    assert reason({"pods": "1"}, requests) == "Insufficient cpu"


def test_sums_beyond_64_bits_are_compared_all_the_same() -> None:
    huge = pod("q", memory="8Ei"), pod("r", memory="8Ei"), pod("s", memory="8Ei")
    offer = {"memory": "8Ei", "pods": "9"}
    assert reason(offer, {"memory": "8Ei"}) is None
    assert reason(offer, {"memory": "1"}, *huge) == "Insufficient memory"
    nodes = Follower(NodeResourcesFit(), new_node(state("a", offer)))
    assert nodes.passing(asking({"memory": "1"})) == ["a"]
    for other in huge[1:]:
        hold(nodes.nodes[0], other)
    nodes.apply(Placed(huge[0], "a"))
    assert nodes.passing(asking({"memory": "1"})) == []


def test_more_resources_than_columns_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "COLUMNS_MAX", 2)
    offer = {"pods": "9", **{f"example.com/{i}": str(i) for i in range(6)}}
    nodes = Follower(NodeResourcesFit(), new_node(state("a", offer)))
    for i in range(6):
        assert nodes.passing(asking({f"example.com/{i}": "3"})) == (["a"] if i >= 3 else [])
        nodes.apply(Placed(pod("q", **{f"example.com/{i}": "1"}), "a"))


@given(histories(), wanted())
def test_mask_and_reasons_follow_every_change(history: list[Event], kinds: list[Kind]) -> None:
    def accepts(pod: Pod, node: Node) -> bool:
        assert node.state is not None
        offered = amounts(node.state.allocatable)
        held = [pod_demand(held.pod).requests for held in node.held.values()]
        return len(held) < offered.get("pods", 0) and all(
            amount == 0
            or amount + sum(other.get(name, 0) for other in held) <= offered.get(name, 0)
            for name, amount in pod_demand(pod).requests.items()
        )

    check_history(NodeResourcesFit(), history, kinds, accepts)
