"""Requirements on labels and fields."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.messages.pods import NodeRequirement
from streams.placement.filters import labels
from streams.placement.filters.labels import (
    NAME_FIELD,
    LabelColumn,
    ValueRequirement,
    parse_field_expression,
    parse_label_expression,
    parse_selector_entry,
)
from tests.streams.builders import node_requirement
from tests.streams.strategies import requirements
from tests.streams.world import count_calls


@pytest.mark.parametrize(
    ("operator", "values", "holding"),
    [
        ("In", ("a", "b"), {"a"}),
        ("In", ("",), {""}),
        ("NotIn", ("a", "b"), {"", "5", "x5", "-5", "+7", None}),
        ("NotIn", ("",), {"a", "5", "x5", "-5", "+7", None}),
        ("Exists", (), {"", "a", "5", "x5", "-5", "+7"}),
        ("DoesNotExist", (), {None}),
        ("Gt", ("4",), {"5", "+7"}),
        ("Gt", ("5",), {"+7"}),
        ("Gt", ("007",), set()),
        ("Lt", ("5",), {"-5"}),
        ("Lt", ("6",), {"5", "-5"}),
    ],
)
def test_an_operator_holds_for_values_as_in_kubernetes(
    operator: str, values: tuple[str, ...], holding: set[str | None]
) -> None:
    requirement = parse_label_expression(node_requirement("zone", operator, *values))
    assert requirement is not None
    examples = ("", "a", "5", "x5", "-5", "+7", None)
    assert {value for value in examples if requirement.matches(value)} == holding


@pytest.mark.parametrize(
    "malformed",
    [
        node_requirement("zone", "In"),
        node_requirement("zone", "NotIn"),
        node_requirement("zone", "Exists", "a"),
        node_requirement("zone", "DoesNotExist", "a"),
        node_requirement("zone", "Gt"),
        node_requirement("zone", "Gt", "1", "2"),
        node_requirement("zone", "Gt", "many"),
        node_requirement("zone", "Gt", "1.5"),
        node_requirement("zone", "Gt", "1_000"),
        node_requirement("zone", "Gt", " 1"),
        node_requirement("zone", "Gt", "٣"),
        node_requirement("zone", "Lt", "9223372036854775808"),
        node_requirement("zone", "Lt", "1" * 63),
        # A label's value cannot begin with a sign, so an expression cannot ask for a negative one.
        node_requirement("zone", "Lt", "-1"),
        node_requirement("zone", "NotIn", "a", "no value"),
        node_requirement("zone", "NotIn", "x" * 64),
        node_requirement("zone", "NotIn", "a\n"),
        node_requirement("", "DoesNotExist"),
        node_requirement("a/b/c", "DoesNotExist"),
        node_requirement("/zone", "DoesNotExist"),
        node_requirement("Example.com/zone", "DoesNotExist"),
        node_requirement("example..com/zone", "DoesNotExist"),
        node_requirement("a" * 254 + "/zone", "DoesNotExist"),
        node_requirement("x" * 64, "DoesNotExist"),
        node_requirement("-zone", "DoesNotExist"),
        node_requirement(NAME_FIELD, "DoesNotExist"),
    ],
    ids=repr,
)
def test_an_expression_that_kubernetes_does_not_accept_is_distinguished(
    malformed: NodeRequirement,
) -> None:
    assert parse_label_expression(malformed) is None


@pytest.mark.parametrize(
    "key", ["z", "Zone_1.x", "topology.kubernetes.io/zone", "a" * 253 + "/" + "x" * 63]
)
def test_a_key_may_have_the_name_of_a_domain_before_it(key: str) -> None:
    assert parse_label_expression(node_requirement(key, "DoesNotExist")) is not None


def test_the_largest_integers_are_compared() -> None:
    above = parse_label_expression(node_requirement("zone", "Gt", "9223372036854775806"))
    below = parse_label_expression(node_requirement("zone", "Lt", "0"))
    assert above is not None
    assert below is not None
    assert above.matches("9223372036854775807")
    assert above.matches("000000000000000000000000009223372036854775807")
    assert below.matches("-9223372036854775808")
    # Beyond 64 bits there is no integer to compare.
    assert not above.matches("9223372036854775808")
    assert not below.matches("-9223372036854775809")
    assert not above.matches("9" * 200_000)


def test_a_field_expression_compares_the_name_with_one_name() -> None:
    assert parse_field_expression(node_requirement("metadata.name", "In", "a")) == ValueRequirement(
        NAME_FIELD, frozenset(("a",))
    )
    unlike = parse_field_expression(node_requirement("metadata.name", "NotIn", "a"))
    assert unlike == ValueRequirement(NAME_FIELD, frozenset(("a",)), negated=True)


@pytest.mark.parametrize(
    "malformed",
    [
        node_requirement("metadata.name", "In"),
        node_requirement("metadata.name", "NotIn", "a", "b"),
        node_requirement("metadata.name", "Exists"),
        node_requirement("metadata.name", "Gt", "1"),
        node_requirement("metadata.namespace", "NotIn", "a"),
    ],
    ids=repr,
)
def test_other_field_expressions_are_distinguished(malformed: NodeRequirement) -> None:
    assert parse_field_expression(malformed) is None


def test_a_selector_compares_as_it_is_but_never_the_name() -> None:
    assert parse_selector_entry("zone", "no label value").matches("no label value")
    assert not parse_selector_entry(NAME_FIELD, "a").matches("a")


@given(requirements(), st.lists(st.sampled_from((None, "a", "b", "2", "4", "16", "")), max_size=6))
def test_rows_of_a_column_hold_what_each_value_holds(
    expression: NodeRequirement, values: list[str | None]
) -> None:
    requirement = parse_label_expression(expression)
    column = LabelColumn(values)
    if requirement is not None:
        rows = requirement.mask(column)
        holding = [requirement.matches(value) for value in values]
        assert (holding if rows is None else rows.tolist()) == holding
        assert rows is not None or all(holding)


def test_the_integers_of_a_column_are_read_once_for_all_expressions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    column = LabelColumn([str(number % 10) for number in range(100)])
    read = count_calls(monkeypatch, labels, "_parse_integer")
    for bound in range(50):
        rows = labels.BoundRequirement("key", bound, above=True).mask(column)
        assert rows is not None
        assert rows.tolist() == [number % 10 > bound for number in range(100)]
    assert read.total() == 10
    column.put(0, "77")
    rows = labels.BoundRequirement("key", 49, above=True).mask(column)
    assert rows is not None
    assert rows.tolist() == [True] + [False] * 99
