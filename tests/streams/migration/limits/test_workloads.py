"""Workloads and disruption budgets: full lists, single reports, and charged pods."""

from typing import Any

from schemas.messages.objects import NamespaceState, PriorityClassState
from schemas.messages.pods import PodSelector, SelectorRequirement
from streams.migration.limits.budgets import Budgets, count_left, describe_budget
from tests.streams.builders import CLUSTER, budget, replica, workload
from tests.streams.world import world_with_pods


def test_a_list_that_names_workloads_removes_those_that_it_lacks() -> None:
    world = world_with_pods()
    world.send(workload("web"), workload("db"), budget(1), budget(1, "db"))
    world.full_list("pod-lifecycle")
    lifecycle = world.state.migrations.lifecycle
    assert sorted(lifecycle.workloads.rows) == ["db", "web"]
    world.full_list("pod-lifecycle", workload("db"))
    assert sorted(lifecycle.workloads.rows) == ["db"]
    assert lifecycle.budgets.build_row(("default", "web")) is not None
    world.full_list("pod-lifecycle", budget(3, "db"))
    assert lifecycle.budgets.build_row(("default", "web")) is None
    row = lifecycle.budgets.build_row(("default", "db"))
    assert row is not None
    assert row.state.disruptions_allowed == 3


def test_charges_of_a_budget_stay_until_its_status_reflects_them() -> None:
    budgets = Budgets(CLUSTER)
    a, b = replica("a"), replica("b")
    budgets.apply(budget(2), 1)
    budgets.charge(a)
    budgets.charge(b)
    budgets.charge(b)
    (row,) = budgets.find_covering(a)
    assert count_left(row) == 0
    assert budgets.explain_exhausted(a) == describe_budget(row)
    budgets.discharge("b", gone=False)
    budgets.discharge("a", gone=True)
    assert count_left(budgets.find_covering(a)[0]) == 1
    budgets.apply(budget(1), 2)
    assert count_left(budgets.find_covering(a)[0]) == 1
    budgets.charge(b)
    budgets.apply(budget(1), 3)
    assert count_left(budgets.find_covering(a)[0]) == 0


def test_a_budget_that_is_gone_charges_nothing() -> None:
    budgets = Budgets(CLUSTER)
    budgets.apply(budget(1), 1)
    budgets.charge(replica("a"))
    budgets.apply(budget(1, removed=True), 2)
    budgets.discharge("a", gone=True)
    assert budgets.find_covering(replica("a")) == []


def test_budgets_without_selectors_are_removed_one_by_one() -> None:
    budgets = Budgets(CLUSTER)
    for name in ("a", "b"):
        unselected = budget(1, name).model_copy(update={"selector": None})
        assert budgets.apply(unselected, 1) is None
    for name in ("a", "b"):
        assert budgets.apply(budget(1, name, removed=True), 2) is None
    assert len(budgets) == 0


def test_a_selector_matches_as_kubernetes_does() -> None:
    def expression(operator: Any, *values: str) -> PodSelector:
        requirement = SelectorRequirement(key="app", operator=operator, values=values)
        return PodSelector(match_expressions=(requirement,))

    assert PodSelector().matches({})
    assert expression("In", "a").matches({"app": "a"})
    assert not expression("In", "a").matches({})
    assert expression("NotIn", "a").matches({})
    assert expression("Exists").matches({"app": ""})
    assert expression("DoesNotExist").matches({})
    assert not PodSelector(match_labels={"app": "a"}).matches({"app": "b"})


def test_a_list_that_is_complete_in_a_kind_and_names_none_of_it_removes_all() -> None:
    world = world_with_pods()
    world.send(workload("web"), budget(1))
    world.send(NamespaceState(cluster=CLUSTER, name="default"))
    world.send(PriorityClassState(cluster=CLUSTER, name="high", value=1))
    lifecycle = world.state.migrations.lifecycle
    rows_by_kind: dict[str, dict[Any, Any]] = {
        "workload": lifecycle.workloads.rows,
        "disruption-budget": lifecycle.budgets.rows,
        "namespace": lifecycle.namespaces.rows,
        "priority-class": lifecycle.classes.rows,
    }
    for kind, rows in rows_by_kind.items():
        world.full_list("pod-lifecycle")
        assert len(rows) == 1
        world.full_list("pod-lifecycle", kinds=(kind,))
        assert len(rows) == 0


def test_a_pending_pod_leaves_although_two_budgets_cover_it() -> None:
    budgets = Budgets(CLUSTER)
    budgets.apply(budget(1), 1)
    budgets.apply(budget(1, name="other"), 1)
    assert budgets.explain_exhausted(replica("a", phase="Pending", ready=False)) is None
    assert "2 disruption budgets select the pod" in str(
        budgets.explain_exhausted(replica("a", ready=False))
    )
