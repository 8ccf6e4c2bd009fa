"""Filter NodeAffinity."""

import re

import pytest
from hypothesis import given

from schemas.messages.pods import NodeRequirement, NodeSelectorTerm, Pod
from streams.inventory.node import Node
from streams.placement.filters import node_affinity
from streams.pods.kind import Kind
from tests.streams.builders import bare_kind, bare_node, node_requirement
from tests.streams.cluster.oracle import check_filter
from tests.streams.strategies import Event, histories, wanted_kinds
from tests.streams.world import CoreWorld, filter_world

REFUSED = "node(s) didn't match Pod's node affinity/selector"


def name(operator: str, *values: str) -> NodeRequirement:
    return node_requirement("metadata.name", operator, *values)


def term(*labels: NodeRequirement, fields: tuple[NodeRequirement, ...] = ()) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=labels, match_fields=fields)


def kind(*terms: NodeSelectorTerm | None, **selector: str) -> Kind:
    """A kind with these terms (None alone: without affinity) and this selector."""
    affinity = None if terms == (None,) else tuple(term for term in terms if term is not None)
    return bare_kind(node_selector=selector, required_node_affinity=affinity)


def three_nodes() -> CoreWorld:
    states = (
        bare_node("n1", labels={"zone": "a", "disk": "ssd", "cores": "8"}),
        bare_node("n2", labels={"zone": "b", "disk": "ssd", "cores": "16"}),
        bare_node("n3", labels={"zone": "a", "cores": "many"}),
    )
    return filter_world("NodeAffinity", *states)


@pytest.mark.parametrize(
    ("asking", "passing"),
    [
        (kind(None, zone="a"), "n1 n3"),
        (kind(None, zone="a", disk="ssd"), "n1"),
        (kind(None, zone="c"), ""),
        (kind(None, rack=""), ""),
        (kind(term(node_requirement("zone", "In", "a", "b"))), "n1 n2 n3"),
        (kind(term(node_requirement("zone", "In", "b", "c"))), "n2"),
        (kind(term(node_requirement("zone", "NotIn", "a"))), "n2"),
        (kind(term(node_requirement("disk", "NotIn", "hdd"))), "n1 n2 n3"),
        (kind(term(node_requirement("disk", "NotIn", "ssd"))), "n3"),
        (kind(term(node_requirement("disk", "Exists"))), "n1 n2"),
        (kind(term(node_requirement("disk", "DoesNotExist"))), "n3"),
        (kind(term(node_requirement("rack", "DoesNotExist"))), "n1 n2 n3"),
        (kind(term(node_requirement("cores", "Gt", "8"))), "n2"),
        (kind(term(node_requirement("cores", "Lt", "16"))), "n1"),
        (kind(term(node_requirement("rack", "Lt", "16"))), ""),
        # All expressions of a term, one term of all.
        (kind(term(node_requirement("zone", "In", "a"), node_requirement("disk", "Exists"))), "n1"),
        (
            kind(
                term(node_requirement("zone", "In", "b")),
                term(node_requirement("disk", "DoesNotExist")),
            ),
            "n2 n3",
        ),
        # The selector as well as the affinity.
        (kind(term(node_requirement("disk", "Exists")), zone="a"), "n1"),
        # Names.
        (kind(term(fields=(name("In", "n2"),))), "n2"),
        (kind(term(fields=(name("NotIn", "n2"),))), "n1 n3"),
        (kind(term(fields=(name("In", "n4"),))), ""),
        (kind(term(node_requirement("zone", "In", "a"), fields=(name("NotIn", "n1"),))), "n3"),
        (kind(term(fields=(name("In", "n1"), name("In", "n2")))), ""),
        # Nothing matches an empty term, an empty list or a malformed term, also a negative one ...
        (kind(), ""),
        (kind(zone="a"), ""),
        (kind(term()), ""),
        (kind(term(node_requirement("zone", "NotIn"))), ""),
        (kind(term(node_requirement("zone", "In", "a"), node_requirement("disk", "NotIn"))), ""),
        (kind(term(fields=(name("NotIn", "n1", "n2"),))), ""),
        (
            kind(
                term(
                    node_requirement("zone", "In", "a"),
                    fields=(node_requirement("zone", "In", "a"),),
                )
            ),
            "",
        ),
        # ... and the other terms count.
        (kind(term(), term(node_requirement("zone", "In", "b"))), "n2"),
        (
            kind(
                term(node_requirement("cores", "Gt", "x")),
                term(node_requirement("zone", "In", "b")),
            ),
            "n2",
        ),
    ],
)
def test_nodes_match_as_in_kubernetes(asking: Kind, passing: str) -> None:
    nodes = three_nodes()
    assert nodes.passing(asking) == passing.split()
    assert nodes.reasons(asking) == {
        node: None if node in passing.split() else REFUSED for node in ("n1", "n2", "n3")
    }


def test_changed_labels_count_at_once() -> None:
    nodes = three_nodes()
    assert nodes.passing(kind(None, disk="ssd")) == ["n1", "n2"]
    nodes.send(bare_node("n3", labels={"disk": "ssd"}), bare_node("n1", labels={}))
    assert nodes.passing(kind(None, disk="ssd")) == ["n2", "n3"]


def test_more_labels_than_columns_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_affinity, "COLUMNS_MAX", 1)
    nodes = three_nodes()
    for _ in range(2):
        assert nodes.passing(kind(None, zone="a", disk="ssd", cores="8")) == ["n1"]
        assert nodes.passing(kind(term(node_requirement("cores", "Gt", "8")), disk="ssd")) == ["n2"]


def meets(expression: NodeRequirement, labels: dict[str, str]) -> bool:
    """The rules of labels.Requirement.Matches, one by one."""
    value = labels.get(expression.key)
    integer = re.compile(r"[+-]?\d+")
    match expression.operator:
        case "In":
            return value is not None and value in expression.values
        case "NotIn":
            return value is None or value not in expression.values
        case "Exists":
            return value is not None
        case "DoesNotExist":
            return value is None
        case "Gt" | "Lt":
            if value is None or not integer.fullmatch(value):
                return False
            difference = int(value) - int(expression.values[0])
            return difference > 0 if expression.operator == "Gt" else difference < 0


def well_formed(expression: NodeRequirement) -> bool:
    """The rules of labels.NewRequirement, as far as the expressions drawn break them."""
    values = expression.values
    if expression.key == "no/label/key" or set(values) & {"-1", "no label value"}:
        return False
    match expression.operator:
        case "In" | "NotIn":
            return len(values) > 0
        case "Exists" | "DoesNotExist":
            return not values
        case "Gt" | "Lt":
            return len(values) == 1 and values[0].isdigit()


def matches(term: NodeSelectorTerm, labels: dict[str, str], node: str) -> bool:
    if not term.match_expressions and not term.match_fields:
        return False
    return all(well_formed(e) and meets(e, labels) for e in term.match_expressions) and all(
        field.key == "metadata.name"
        and field.operator in ("In", "NotIn")
        and len(field.values) == 1
        and (field.values[0] == node) == (field.operator == "In")
        for field in term.match_fields
    )


@given(histories(), wanted_kinds())
def test_mask_and_reasons_follow_every_change(history: list[Event], kinds: list[Kind]) -> None:
    def accepts(pod: Pod, node: Node) -> bool:
        assert node.state is not None
        labels = node.state.labels
        selected = all(labels.get(key) == value for key, value in pod.node_selector.items())
        terms = pod.required_node_affinity
        return selected and (
            terms is None or any(matches(term, labels, node.name) for term in terms)
        )

    check_filter("NodeAffinity", history, kinds, accepts)
