"""Namespaces and priority classes: known as records and lists say, and heeded by the evictor's rules."""

import pytest

from streams.migration.limits import objects
from tests.streams.builders import (
    migration_policy,
    namespace,
    policy_record,
    priority_class,
    replica,
)
from tests.streams.world import World, world_with_pods

BY_LABEL = "evictor: {namespaceLabelSelector: {matchLabels: {team: shop}}}"
BY_CLASS = "evictor: {priorityThreshold: {name: high}}"


def new_world(extra: str) -> World:
    return world_with_pods(migration_policy(extra), (replica("a", priority=100), "node-1"))


def test_pods_may_leave_as_soon_as_the_labels_of_their_namespace_are_known_to_match() -> None:
    world = new_world(BY_LABEL)
    why = world.propose("a")
    assert why is not None
    assert "labels of namespace default, which are unknown; send the cluster's namespaces" in why
    world.send(namespace(team="web"))
    assert world.propose("a") == "namespace default does not match evictor.namespaceLabelSelector"
    world.send(namespace())
    assert world.propose("a") is None


def test_a_removed_namespace_is_unknown() -> None:
    world = new_world(BY_LABEL)
    world.send(namespace(), namespace(removed=True))
    assert "are unknown" in (world.propose("a") or "")
    world.send(namespace(removed=True))


@pytest.mark.parametrize(("value", "leaves"), [(100, False), (101, True)])
def test_a_priority_class_has_the_value_that_the_cluster_reports(value: int, leaves: bool) -> None:
    world = new_world(BY_CLASS)
    assert "whose value is unknown" in (world.propose("a") or "")
    world.send(priority_class(value))
    why = world.propose("a")
    assert why == (
        None if leaves else "the pod's priority 100 is not below evictor.priorityThreshold 100"
    )


def test_a_built_in_priority_class_keeps_its_value() -> None:
    world = new_world("evictor: {priorityThreshold: {name: system-cluster-critical}}")
    world.send(priority_class(0, "system-cluster-critical"))
    assert world.propose("a") is None


def test_a_full_list_with_entries_removes_the_others_and_an_empty_one_removes_none() -> None:
    world = new_world("")
    lifecycle = world.state.migrations.lifecycle
    world.send(namespace("one"), namespace("two"), priority_class(5), priority_class(6, "low"))
    world.full_list("pod-lifecycle")
    assert sorted(lifecycle.namespaces.rows) == ["one", "two"]
    world.full_list("pod-lifecycle", namespace("two"))
    assert sorted(lifecycle.namespaces.rows) == ["two"]
    assert sorted(lifecycle.classes.rows) == ["high", "low"]
    world.full_list("pod-lifecycle", priority_class(7, "low"))
    assert {name: row.state.value for name, row in lifecycle.classes.rows.items()} == {"low": 7}


def test_beyond_the_limit_a_new_namespace_is_refused_and_known_ones_may_change(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(objects, "NAMESPACES_MAX", 1)
    world = World(policy_record(""), namespace("one"))
    (refused,) = world.send_refused(namespace("two"))
    assert refused.category == "limit"
    assert refused.reason == "namespace two exceeds the limit of 1 per cluster"
    world.send(namespace("one", team="other"))


def test_a_cluster_with_only_a_namespace_is_not_forgotten() -> None:
    world = World()
    world.later()
    world.send(namespace())
    assert not world.state.is_empty
    world.send(namespace(removed=True))
    assert world.state.is_empty
