"""Limits of one pod."""

import pytest

from schemas.messages.pods import Container, HostPort, NodeRequirement, NodeSelectorTerm, Pod
from streams.placement.columns import InternedColumn
from streams.placement.filters.fit import NodeResourcesFit
from streams.placement.filters.labels import ValueRequirement
from streams.placement.filters.unsupported import RESOURCES_PER_POD_MAX, find_exceeded_limit
from tests.streams.builders import big_pod, lifecycle, node, pod, request, tick
from tests.streams.world import World, count_calls, only


def term(*keys: str, values: tuple[str, ...] = ()) -> NodeSelectorTerm:
    """Labels that a node must have."""
    return NodeSelectorTerm(
        match_expressions=tuple(
            NodeRequirement(key=key, operator="In" if values else "Exists", values=values)
            for key in keys
        )
    )


def labels(count: int) -> Pod:
    """A pod that asks about this many labels."""
    return pod(required_node_affinity=(term(*(f"k{number}" for number in range(count))),))


def resources(count: int) -> Pod:
    """A pod that asks for this many resources."""
    amounts = {f"r{number}": "1" for number in range(count)}
    first, second = dict(list(amounts.items())[:50]), dict(list(amounts.items())[50:])
    return pod(containers=(Container(requests=first), Container(limits=second)))


def ports(count: int) -> Pod:
    """A pod that takes this many ports."""
    part = tuple(HostPort(port=1 + number) for number in range(count // 6))
    return pod(containers=(Container(host_ports=part),) * 6)


EXPRESSIONS = tuple(term(*("zone",) * 256) for _ in range(2))
VALUES = tuple(term("zone", values=("v",) * 1024) for _ in range(4))
AMOUNTS = (Container(requests={f"r{number}": "1" for number in range(64)}),) * 128


@pytest.mark.parametrize(
    ("allowed", "beyond", "why"),
    [
        (labels(64), labels(65), "65 labels in node selector and node affinity"),
        (
            pod(required_node_affinity=EXPRESSIONS),
            pod(required_node_affinity=(*EXPRESSIONS, term("zone"))),
            "513 expressions in its node affinity",
        ),
        (
            pod(required_node_affinity=VALUES),
            pod(required_node_affinity=(*VALUES, term("zone", values=("v",)))),
            "4097 values in its node affinity",
        ),
        (resources(64), resources(65), "65 resources in all containers"),
        (
            pod(containers=AMOUNTS),
            pod(containers=(*AMOUNTS, Container(requests={"r1": "1"}))),
            "8193 requests and limits in all containers",
        ),
        (ports(1020), ports(1026), "1026 host ports in all containers"),
    ],
)
def test_a_pod_has_limits(allowed: Pod, beyond: Pod, why: str) -> None:
    assert find_exceeded_limit(allowed) is None
    assert str(find_exceeded_limit(beyond)).startswith(f"the pod has {why}; allowed are at most ")


def test_a_request_beyond_a_limit_is_refused_by_a_decision_that_names_it() -> None:
    world = World(tick(), node())
    decision = only(world.send(request(labels(65))))
    assert (decision.outcome, decision.message) == (
        "refused",
        "the pod has 65 labels in node selector and node affinity; allowed are at most 64",
    )


def test_a_bound_pod_beyond_a_limit_is_a_dead_letter_and_can_end() -> None:
    world = World(tick(), node())
    (letter,) = world.send_refused(lifecycle("running", labels(65), "node-1"))
    assert letter.category == "limit"
    assert world.state.inventory.find_held("pod-1") is None
    world.send(lifecycle("running", big_pod("pod-1"), "node-1"))
    world.send(lifecycle("deleted", labels(65), "node-1"))
    assert world.state.inventory.find_held("pod-1") is None


def test_labels_and_resources_of_no_node_are_checked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    columns = count_calls(monkeypatch, InternedColumn, "__init__")
    looks = count_calls(monkeypatch, ValueRequirement, "matches")
    built = count_calls(monkeypatch, NodeResourcesFit, "_build")
    world = World(tick(), *(node(f"n-{number}", labels={"zone": "a"}) for number in range(50)))
    for calls in (columns, looks, built):
        calls.clear()
    terms = tuple(term(*(f"{one}-{two}" for two in range(6))) for one in range(10))
    decision = only(world.send(request(pod(required_node_affinity=terms))))
    assert decision.message == "50 nodes: didn't match Pod's node affinity/selector"
    # Each term is evaluated once for all nodes without the label, and for no single node.
    assert (looks.total(), columns.total()) == (10, 0)
    decision = only(world.send(request(resources(RESOURCES_PER_POD_MAX))))
    assert decision.message == "50 nodes: Insufficient r0"
    # Pods, cpu and memory, which nodes have; nothing for the 64 that they have not.
    assert built.total() == 3


def test_reasons_of_refusal_are_computed_for_all_nodes_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = World(tick(), *(node(f"n-{number}", cpu="1") for number in range(50)))
    calls = count_calls(monkeypatch, NodeResourcesFit, "reason")
    decision = only(world.send(request(big_pod("a"))))
    assert decision.message == "50 nodes: Insufficient cpu"
    assert calls["reason"] == 0
