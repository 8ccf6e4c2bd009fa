"""Filter NodeAffinity."""

import re

import pytest
from hypothesis import given

from schemas.nodes import NodeState
from schemas.pods import NodeRequirement, NodeSelectorTerm, Pod
from streams.inventory.kind import Kind, kind_of
from streams.inventory.node import Node
from streams.placement.plugins import node_affinity
from streams.placement.plugins.node_affinity import NodeAffinity
from tests.streams.placement.plugins.history import (
    Event,
    Follower,
    check_history,
    histories,
    new_node,
    wanted,
)

REFUSED = "node(s) didn't match Pod's node affinity/selector"


def label(key: str, operator: str, *values: str) -> NodeRequirement:
    return NodeRequirement.model_validate({"key": key, "operator": operator, "values": values})


def name(operator: str, *values: str) -> NodeRequirement:
    return label("metadata.name", operator, *values)


def term(*labels: NodeRequirement, fields: tuple[NodeRequirement, ...] = ()) -> NodeSelectorTerm:
    return NodeSelectorTerm(match_expressions=labels, match_fields=fields)


def kind(*terms: NodeSelectorTerm | None, **selector: str) -> Kind:
    """A kind with these terms (None alone: without affinity) and this selector."""
    affinity = None if terms == (None,) else tuple(term for term in terms if term is not None)
    return kind_of(
        Pod(
            namespace="default",
            name="p",
            uid="p",
            node_selector=selector,
            required_node_affinity=affinity,
        )
    )


def state(node: str, **labels: str) -> NodeState:
    return NodeState(cluster="test", node=node, event="changed", labels=labels)


def three_nodes() -> Follower:
    states = (
        state("n1", zone="a", disk="ssd", cores="8"),
        state("n2", zone="b", disk="ssd", cores="16"),
        state("n3", zone="a", cores="many"),
    )
    return Follower(NodeAffinity(), *map(new_node, states))


@pytest.mark.parametrize(
    ("asking", "passing"),
    [
        (kind(None, zone="a"), "n1 n3"),
        (kind(None, zone="a", disk="ssd"), "n1"),
        (kind(None, zone="c"), ""),
        (kind(None, rack=""), ""),
        (kind(term(label("zone", "In", "a", "b"))), "n1 n2 n3"),
        (kind(term(label("zone", "In", "b", "c"))), "n2"),
        (kind(term(label("zone", "NotIn", "a"))), "n2"),
        (kind(term(label("disk", "NotIn", "hdd"))), "n1 n2 n3"),
        (kind(term(label("disk", "NotIn", "ssd"))), "n3"),
        (kind(term(label("disk", "Exists"))), "n1 n2"),
        (kind(term(label("disk", "DoesNotExist"))), "n3"),
        (kind(term(label("rack", "DoesNotExist"))), "n1 n2 n3"),
        (kind(term(label("cores", "Gt", "8"))), "n2"),
        (kind(term(label("cores", "Lt", "16"))), "n1"),
        (kind(term(label("rack", "Lt", "16"))), ""),
        # All expressions of a term, one term of all.
        (kind(term(label("zone", "In", "a"), label("disk", "Exists"))), "n1"),
        (kind(term(label("zone", "In", "b")), term(label("disk", "DoesNotExist"))), "n2 n3"),
        # The selector as well as the affinity.
        (kind(term(label("disk", "Exists")), zone="a"), "n1"),
        # Names.
        (kind(term(fields=(name("In", "n2"),))), "n2"),
        (kind(term(fields=(name("NotIn", "n2"),))), "n1 n3"),
        (kind(term(fields=(name("In", "n4"),))), ""),
        (kind(term(label("zone", "In", "a"), fields=(name("NotIn", "n1"),))), "n3"),
        (kind(term(fields=(name("In", "n1"), name("In", "n2")))), ""),
        # Nothing matches an empty term, an empty list or a malformed term, also a negative one ...
        (kind(), ""),
        (kind(zone="a"), ""),
        (kind(term()), ""),
        (kind(term(label("zone", "NotIn"))), ""),
        (kind(term(label("zone", "In", "a"), label("disk", "NotIn"))), ""),
        (kind(term(fields=(name("NotIn", "n1", "n2"),))), ""),
        (kind(term(label("zone", "In", "a"), fields=(label("zone", "In", "a"),))), ""),
        # ... and the terms beside it count.
        (kind(term(), term(label("zone", "In", "b"))), "n2"),
        (kind(term(label("cores", "Gt", "x")), term(label("zone", "In", "b"))), "n2"),
    ],
)
def test_nodes_match_as_in_kubernetes(asking: Kind, passing: str) -> None:
    nodes = three_nodes()
    assert nodes.passing(asking) == passing.split()
    assert nodes.reasons(asking) == {
        node: None if node in passing.split() else REFUSED for node in ("n1", "n2", "n3")
    }


def test_a_pod_without_requirements_costs_nothing() -> None:
    nodes = three_nodes()
    assert nodes.plugin.mask(nodes.plugin.prepare(kind(None))) is None


def test_a_label_that_was_asked_for_is_followed() -> None:
    nodes = three_nodes()
    assert nodes.passing(kind(None, zone="a")) == ["n1", "n3"]
    nodes.apply(state("n1", zone="b"))
    nodes.apply(state("n0", zone="a"))
    nodes.apply(state("n4"))
    assert nodes.passing(kind(None, zone="a")) == ["n0", "n3"]
    assert nodes.passing(kind(term(label("zone", "DoesNotExist")))) == ["n4"]
    nodes.apply(state("n3"))
    assert nodes.passing(kind(term(label("zone", "DoesNotExist")))) == ["n3", "n4"]


def test_more_labels_than_columns_change_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_affinity, "COLUMNS_MAX", 1)
    nodes = three_nodes()
    for _ in range(2):
        assert nodes.passing(kind(None, zone="a", disk="ssd", cores="8")) == ["n1"]
        assert nodes.passing(kind(term(label("cores", "Gt", "8")), disk="ssd")) == ["n2"]


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


@given(histories(), wanted())
def test_mask_and_reasons_follow_every_change(history: list[Event], kinds: list[Kind]) -> None:
    def accepts(pod: Pod, node: Node) -> bool:
        assert node.state is not None
        labels = node.state.labels
        selected = all(labels.get(key) == value for key, value in pod.node_selector.items())
        terms = pod.required_node_affinity
        return selected and (
            terms is None or any(matches(term, labels, node.name) for term in terms)
        )

    check_history(NodeAffinity(), history, kinds, accepts)
