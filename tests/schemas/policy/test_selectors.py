"""Label selectors match and are refused as in Kubernetes."""

from typing import Any

import pytest

from schemas.policy.errors import PolicyError
from schemas.policy.selectors import LabelSelector, Namespaces, parse_selector
from schemas.policy.validation import build_model
from tests.schemas.policy.harness import problems


def selector(raw: dict[str, Any]) -> LabelSelector:
    return build_model(LabelSelector, raw)


def expression(operator: str, *values: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "zone", "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize(
    ("raw", "matching", "others"),
    [
        ({}, [{}, {"zone": "east"}], []),
        ({"matchLabels": {"zone": "east"}}, [{"zone": "east", "a": "b"}], [{}, {"zone": "west"}]),
        (expression("In", "east", "west"), [{"zone": "west"}], [{}, {"zone": "north"}]),
        (expression("NotIn", "east"), [{}, {"zone": "west"}], [{"zone": "east"}]),
        (expression("Exists"), [{"zone": ""}], [{}]),
        (expression("DoesNotExist"), [{}], [{"zone": ""}]),
        (
            {"matchLabels": {"a": "b"}, **expression("Exists")},
            [{"a": "b", "zone": "x"}],
            [{"a": "b"}, {"zone": "x"}],
        ),
    ],
)
def test_selectors_match_labels_as_in_kubernetes(
    raw: dict[str, Any], matching: list[dict[str, str]], others: list[dict[str, str]]
) -> None:
    assert all(selector(raw).matches(labels) for labels in matching)
    assert not any(selector(raw).matches(labels) for labels in others)


@pytest.mark.parametrize(
    ("raw", "path"),
    [
        (expression("Near", "x"), "matchExpressions[0].operator"),
        (expression("In"), "matchExpressions[0].values"),
        (expression("Exists", "x"), "matchExpressions[0].values"),
        ({"matchLabels": {"a b": "x"}}, 'matchLabels["a b"]'),
        ({"matchLabels": {"a": "-x"}}, "matchLabels.a"),
        ({"matchLabels": {"a": 1}}, "matchLabels.a"),
        ({"matchLabels": {"a": "x\n"}}, "matchLabels.a"),
    ],
)
def test_selectors_invalid_in_kubernetes_are_refused(raw: dict[str, Any], path: str) -> None:
    assert list(problems(selector, raw)) == [path]


@pytest.mark.parametrize(
    ("text", "raw"),
    [
        ("", {}),
        ("zone=east", expression("In", "east")),
        ("zone==east", expression("In", "east")),
        ("zone = east", expression("In", "east")),
        ("zone!=east", expression("NotIn", "east")),
        ("zone in (east, west)", expression("In", "east", "west")),
        ("zone notin (east)", expression("NotIn", "east")),
        ("zone", expression("Exists")),
        ("!zone", expression("DoesNotExist")),
        ("zone=", expression("In", "")),
    ],
)
def test_selectors_are_read_in_the_format_of_kubectl(text: str, raw: dict[str, Any]) -> None:
    assert parse_selector(text) == selector(raw)


def test_several_requirements_are_read_from_text() -> None:
    parsed = parse_selector("pool.example.com/kind in (a,b),!spare, disk=ssd")
    assert parsed.matches({"pool.example.com/kind": "b", "disk": "ssd"})
    assert not parsed.matches({"pool.example.com/kind": "b", "disk": "ssd", "spare": ""})


@pytest.mark.parametrize(
    "text", ["a,", ",a", "a b", "a in b", "a>1", "a in ()x", "a=b c", "=b", "!"]
)
def test_invalid_selector_text_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="label requirement"):
        parse_selector(text)


def test_namespaces_include_or_exclude_but_not_both() -> None:
    assert Namespaces(include=("a",)).admits("a")
    assert not Namespaces(include=("a",)).admits("b")
    assert not Namespaces(exclude=("a",)).admits("a")
    assert Namespaces().admits("anything")
    with pytest.raises(PolicyError, match=r"exclude: include and exclude are both given"):
        build_model(Namespaces, {"include": ["a"], "exclude": ["b"]})
