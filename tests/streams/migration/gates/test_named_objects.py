"""Namespaces and priority classes: known as records and lists say, and heeded by the evictor's rules."""

import pytest

from schemas.messages.dead_letters import DeadLetter
from streams.migration.gates import named_objects
from tests.streams.cluster.builders import (
    namespace,
    policy_record,
    policy_text,
    priority_class,
    replica,
)
from tests.streams.migration.harness import Moving, cluster, full_list

BY_LABEL = "evictor: {namespaceLabelSelector: {matchLabels: {team: shop}}}"
BY_CLASS = "evictor: {priorityThreshold: {name: high}}"


def world(extra: str) -> Moving:
    return cluster(policy_text(extra), (replica("a", priority=100), "node-1"))


def test_pods_of_a_namespace_whose_labels_match_may_leave_as_soon_as_these_are_known() -> None:
    moving = world(BY_LABEL)
    why = moving.propose("a")
    assert why is not None
    assert "labels of namespace default, which are unknown; send the cluster's namespaces" in why
    moving.say(namespace(team="web"))
    assert moving.propose("a") == "namespace default does not match evictor.namespaceLabelSelector"
    moving.say(namespace())
    assert moving.propose("a") is None


def test_a_removed_namespace_is_unknown() -> None:
    moving = world(BY_LABEL)
    moving.say(namespace(), namespace(removed=True))
    assert "are unknown" in (moving.propose("a") or "")
    moving.say(namespace(removed=True))


@pytest.mark.parametrize(("value", "leaves"), [(100, False), (101, True)])
def test_a_priority_class_has_the_value_that_the_cluster_reports(value: int, leaves: bool) -> None:
    moving = world(BY_CLASS)
    assert "whose value is unknown" in (moving.propose("a") or "")
    moving.say(priority_class(value))
    why = moving.propose("a")
    assert why == (
        None if leaves else "the pod's priority 100 is not below evictor.priorityThreshold 100"
    )


def test_a_built_in_priority_class_keeps_its_value() -> None:
    moving = world("evictor: {priorityThreshold: {name: system-cluster-critical}}")
    moving.say(priority_class(0, "system-cluster-critical"))
    assert moving.propose("a") is None


def test_a_full_list_that_names_some_removes_the_others_and_one_without_any_says_nothing() -> None:
    moving = world("")
    lifecycle = moving.state.migrations.lifecycle
    moving.say(namespace("one"), namespace("two"), priority_class(5), priority_class(6, "low"))
    full_list(moving, "first")
    assert sorted(lifecycle.namespaces.rows) == ["one", "two"]
    full_list(moving, "second", namespace("two"))
    assert sorted(lifecycle.namespaces.rows) == ["two"]
    assert sorted(lifecycle.classes.rows) == ["high", "low"]
    full_list(moving, "third", priority_class(7, "low"))
    assert {name: row.state.value for name, row in lifecycle.classes.rows.items()} == {"low": 7}


def test_beyond_the_limit_a_namespace_is_refused_and_those_known_may_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(named_objects, "NAMESPACES_MAX", 1)
    moving = Moving()
    moving.say(policy_record(""), namespace("one"))
    refused = moving.ask(namespace("two"))
    assert isinstance(refused, DeadLetter)
    assert refused.category == "limit"
    assert refused.reason == "namespace two exceeds the limit of 1 per cluster"
    assert moving.ask(namespace("one", team="other")) == []


def test_a_cluster_with_only_a_namespace_is_not_forgotten() -> None:
    moving = Moving()
    moving.later()
    moving.say(namespace())
    assert not moving.state.is_empty
    moving.say(namespace(removed=True))
    assert moving.state.is_empty
