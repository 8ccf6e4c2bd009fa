"""Warnings about policies whose requirements the cluster does not meet."""

from typing import Any

import pytest

from connectors.kafka.cluster_records import SearchProgress
from connectors.policies.unmet import list_unmet_requirements
from schemas.messages.objects import DisruptionBudget, NamespaceState, PriorityClassState
from schemas.messages.pods import Pod, PodLifecycle
from schemas.policy import read_policy

_REBALANCING = "rebalance: {lowThresholds: {cpu: 40}, highThresholds: {cpu: 70}}\n"
_BY_THRESHOLDS = _REBALANCING + "plugins: {balance: [LowNodeLoad]}\n"
_BLOCKED = DisruptionBudget(
    cluster="east", namespace="shop", name="web", expected_pods=3, desired_healthy=3
)


def list_warnings(document: str, *objects: Any) -> list[str]:
    looked = SearchProgress(len(objects), whole=True)
    policy = read_policy(document)
    return list(list_unmet_requirements(policy, reversed(objects), looked))


def pods(*schedulers: str) -> list[PodLifecycle]:
    pods = [
        Pod(namespace="a", name=f"p{number}", uid=f"u{number}", scheduler=scheduler)
        for number, scheduler in enumerate(schedulers)
    ]
    return [PodLifecycle(cluster="east", event="running", pod=pod) for pod in pods]


@pytest.mark.parametrize("document", ["", _BY_THRESHOLDS])
def test_a_warning_names_schedulers_that_rebalancing_ignores(document: str) -> None:
    seen = pods("default-scheduler", "", "volcano")
    (warning,) = list_warnings(document, *seen)
    assert "none of 3 pods" in warning
    assert "default-scheduler (2), volcano (1)" in warning
    gone = seen[2].model_copy(update={"event": "deleted"})
    (warning,) = list_warnings(document, *seen, gone)
    assert "none of 2 pods" in warning


@pytest.mark.parametrize(
    "document",
    [
        "plugins: {balance: [LowNodeLoad]}\n",
        "plugins: {balance: []}\n",
        _REBALANCING + "otherSchedulers: evictDirectly\n",
        _REBALANCING + "migration: {schedulerNames: [volcano]}\n",
        _REBALANCING + "migration: {defaultJobMode: EvictDirectly}\n",
    ],
)
def test_a_policy_that_reaches_pods_or_moves_none_has_no_warning(document: str) -> None:
    assert list_warnings(document, *pods("default-scheduler", "volcano")) == []


def test_a_warning_names_namespaces_and_priority_classes_that_do_not_exist() -> None:
    document = (
        "evictor: {namespaceLabelSelector: {matchLabels: {a: b}}, priorityThreshold: {name: high}}\n"
        "migration: {priorityThreshold: {name: system-cluster-critical}}\n"
    )
    labels, priority = list_warnings(document)
    assert "namespaceLabelSelector" in labels
    assert "evictor.priorityThreshold names class high" in priority
    sent = (
        NamespaceState(cluster="east", name="shop", labels={"a": "b"}),
        PriorityClassState(cluster="east", name="high", value=5),
    )
    assert list_warnings(document, *sent) == []


def test_a_warning_names_budgets_that_forbid_evictions_and_missing_objects() -> None:
    open_budget = _BLOCKED.model_copy(update={"name": "open", "desired_healthy": 2})
    namespace = NamespaceState(cluster="east", name="shop")
    objects = [*pods("loadstream"), _BLOCKED, open_budget, namespace]
    (budget,) = list_warnings(_REBALANCING, *objects)
    assert "1 disruption budget" in budget
    assert "shop/web" in budget
    for section, field, name in (
        ("{schedulerNames: [loadstream, volcano]}", "migration.schedulerNames", "volcano"),
        ("{namespaces: {include: [shop, shp]}}", "migration.namespaces.include", "shp"),
    ):
        warnings = list_warnings(f"{_REBALANCING}migration: {section}", *objects)
        warnings.remove(budget)
        (other,) = warnings
        assert other.startswith(f"{field} names {name}, ")
