"""Warnings about requirements of a policy that its cluster does not meet."""

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


def warned(document: str, *objects: Any) -> list[str]:
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
def test_schedulers_that_rebalancing_does_not_reach_are_named(document: str) -> None:
    seen = pods("default-scheduler", "", "volcano")
    (warning,) = warned(document, *seen)
    assert "none of 3 pods" in warning
    assert "default-scheduler (2), volcano (1)" in warning
    gone = seen[2].model_copy(update={"event": "deleted"})
    (warning,) = warned(document, *seen, gone)
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
    assert warned(document, *pods("default-scheduler", "volcano")) == []


def test_namespaces_and_priority_classes_that_no_producer_has_sent_are_named() -> None:
    document = (
        "evictor: {namespaceLabelSelector: {matchLabels: {a: b}}, priorityThreshold: {name: high}}\n"
        "migration: {priorityThreshold: {name: system-cluster-critical}}\n"
    )
    labels, priority = warned(document)
    assert "namespaceLabelSelector" in labels
    assert "evictor.priorityThreshold names class high" in priority
    sent = (
        NamespaceState(cluster="east", name="shop", labels={"a": "b"}),
        PriorityClassState(cluster="east", name="high", value=5),
    )
    assert warned(document, *sent) == []


def test_budgets_that_forbid_evictions_and_names_that_are_not_there_are_named() -> None:
    open_budget = _BLOCKED.model_copy(update={"name": "open", "desired_healthy": 2})
    namespace = NamespaceState(cluster="east", name="shop")
    objects = [*pods("loadstream"), _BLOCKED, open_budget, namespace]
    (budget,) = warned(_REBALANCING, *objects)
    assert "1 disruption budget" in budget
    assert "shop/web" in budget
    for section, field, name in (
        ("{schedulerNames: [loadstream, volcano]}", "migration.schedulerNames", "volcano"),
        ("{namespaces: {include: [shop, shp]}}", "migration.namespaces.include", "shp"),
    ):
        warnings = warned(f"{_REBALANCING}migration: {section}", *objects)
        warnings.remove(budget)
        (other,) = warnings
        assert other.startswith(f"{field} names {name}, ")
