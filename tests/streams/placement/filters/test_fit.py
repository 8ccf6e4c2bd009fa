"""Filter NodeResourcesFit."""

import pytest
from hypothesis import given

from schemas.base.quantities import parse_amounts
from schemas.messages.pods import Pod
from streams.inventory.node import Node
from streams.placement.filters import fit
from streams.placement.filters.fit import NodeResourcesFit, list_needed_amounts
from streams.pods.kind import Kind, compute_demand, kind_of
from tests.streams.builders import bare_node, bare_pod, container, inventory_node
from tests.streams.cluster.oracle import check_filter, reason
from tests.streams.strategies import Event, histories, wanted_kinds
from tests.streams.world import filter_world


def requesting(uid: str = "p", **requests: str) -> Pod:
    return bare_pod(uid, containers=(container(requests),))


def refused(allocatable: dict[str, str], requests: dict[str, str], *held: Pod) -> str | None:
    """Why a node refuses; the mask must say the same."""
    node = inventory_node(bare_node("a", allocatable=allocatable), *held)
    return reason(NodeResourcesFit(), requesting(**requests), node)


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
        # A pod counts as one pod, even if it requests more.
        ({"pods": "1"}, {"pods": "7"}, None),
    ],
)
def test_a_pod_fits_when_all_that_it_requests_is_free(
    allocatable: dict[str, str], requests: dict[str, str], expected: str | None
) -> None:
    assert refused(allocatable, requests) == expected


def test_reasons_come_in_a_fixed_order() -> None:
    requests = {"b/x": "1", "memory": "1", "a/x": "1", "ephemeral-storage": "1", "cpu": "1"}
    assert [name for name, _ in list_needed_amounts(kind_of(requesting(**requests)))] == [
        "pods", "cpu", "memory", "ephemeral-storage", "a/x", "b/x",
    ]  # fmt: skip
    assert refused({}, requests) == "Too many pods"
    assert refused({"pods": "1"}, requests) == "Insufficient cpu"


def test_sums_beyond_64_bits_are_compared_all_the_same() -> None:
    huge = (
        requesting("q", memory="8Ei"),
        requesting("r", memory="8Ei"),
        requesting("s", memory="8Ei"),
    )
    offer = {"memory": "8Ei", "pods": "9"}
    assert refused(offer, {"memory": "8Ei"}) is None
    assert refused(offer, {"memory": "1"}, *huge) == "Insufficient memory"
    nodes = filter_world("NodeResourcesFit", bare_node("a", allocatable=offer))
    assert nodes.passing(kind_of(requesting(memory="1"))) == ["a"]
    nodes.hold("a", *huge)
    assert nodes.passing(kind_of(requesting(memory="1"))) == []


def test_more_resources_than_columns_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fit, "COLUMNS_MAX", 2)
    offer = {"pods": "9", **{f"example.com/{i}": str(i) for i in range(6)}}
    nodes = filter_world("NodeResourcesFit", bare_node("a", allocatable=offer))
    for i in range(6):
        assert nodes.passing(kind_of(requesting(**{f"example.com/{i}": "3"}))) == (
            ["a"] if i >= 3 else []
        )
        nodes.hold("a", requesting(f"q-{i}", **{f"example.com/{i}": "1"}))


@given(histories(), wanted_kinds())
def test_mask_and_reasons_follow_every_change(history: list[Event], kinds: list[Kind]) -> None:
    def accepts(pod: Pod, node: Node) -> bool:
        assert node.state is not None
        offered = parse_amounts(node.state.allocatable)
        held = [compute_demand(held.pod).requests for held in node.held.values()]
        return len(held) < offered.get("pods", 0) and all(
            amount == 0
            or amount + sum(other.get(name, 0) for other in held) <= offered.get(name, 0)
            for name, amount in compute_demand(pod).requests.items()
        )

    check_filter("NodeResourcesFit", history, kinds, accepts)
