from typing import Any

import pytest

from streams.pods.kind import (
    PRIORITY_CLASS_LABEL,
    QOS_CLASS_LABEL,
    PriorityClass,
    compute_demand,
    find_request,
    resolve_demand,
    resolve_priority_class,
    translate_resource,
)
from tests.streams.builders import container, pod


def labelled(value: str, qos: str | None = None) -> dict[str, str]:
    return {PRIORITY_CLASS_LABEL: value} | ({} if qos is None else {QOS_CLASS_LABEL: qos})


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        # The label overrides all other fields.
        ({"labels": labelled("koord-prod"), "priority": 5500, "qos_class": "BestEffort"}, "prod"),
        ({"labels": labelled("koord-mid")}, "mid"),
        ({"labels": labelled("koord-batch")}, "batch"),
        ({"labels": labelled("koord-free"), "priority": 9500}, "free"),
        # A label that says nothing keeps the priority from being looked at.
        ({"labels": labelled("koord-prodd"), "priority": 3500}, "prod"),
        ({"labels": labelled(""), "priority": 3500}, "prod"),
        ({"labels": labelled("nothing", "BE"), "priority": 9500}, "batch"),
        # Bands of priorities, ends included.
        ({"priority": 9000}, "prod"),
        ({"priority": 9999}, "prod"),
        ({"priority": 7000}, "mid"),
        ({"priority": 7999}, "mid"),
        ({"priority": 5000}, "batch"),
        ({"priority": 5999}, "batch"),
        ({"priority": 3000}, "free"),
        ({"priority": 3999}, "free"),
        # Outside of every band the quality of service decides.
        ({"priority": 8999}, "prod"),
        ({"priority": 10_000}, "prod"),
        ({"priority": 0, "containers": ()}, "batch"),
        ({"priority": 2**31 - 1, "containers": ()}, "batch"),
        ({"priority": -(2**31)}, "prod"),
        ({"labels": {QOS_CLASS_LABEL: "LSE"}, "containers": ()}, "prod"),
        ({"labels": {QOS_CLASS_LABEL: "LSR"}, "containers": ()}, "prod"),
        ({"labels": {QOS_CLASS_LABEL: "LS"}, "containers": ()}, "prod"),
        ({"labels": {QOS_CLASS_LABEL: "SYSTEM"}, "containers": ()}, "prod"),
        ({"labels": {QOS_CLASS_LABEL: "BE"}}, "batch"),
        ({"labels": {QOS_CLASS_LABEL: "be"}}, "prod"),
        ({"labels": {QOS_CLASS_LABEL: "BE"}, "qos_class": "Guaranteed"}, "batch"),
        # Then the class that Kubernetes computed, then the one that it would compute.
        ({"qos_class": "BestEffort"}, "batch"),
        ({"qos_class": "Burstable", "containers": ()}, "prod"),
        ({"qos_class": "Guaranteed", "containers": ()}, "prod"),
        ({}, "prod"),
        ({"containers": ()}, "batch"),
        ({"containers": (container({"kubernetes.io/batch-cpu": "1000"}),)}, "batch"),
        ({"containers": (), "init_containers": (container({}, {"memory": "1"}),)}, "prod"),
    ],
)
def test_a_pod_has_the_class_that_koordinator_gives_it(
    fields: dict[str, Any], expected: str
) -> None:
    of = pod(**fields)
    assert resolve_priority_class(of, compute_demand(of)) == expected


_BATCH_CPU, _MID_CPU = "kubernetes.io/batch-cpu", "kubernetes.io/mid-cpu"


@pytest.mark.parametrize(
    ("requests", "limits", "of_class", "expected"),
    [
        ({"cpu": "2"}, {"cpu": "4"}, "prod", 2_000),
        ({}, {"cpu": "4"}, "prod", 4_000),
        ({_BATCH_CPU: "700", "cpu": "2"}, {}, "batch", 700),
        ({"cpu": "2"}, {}, "batch", 2_000),
        ({_BATCH_CPU: "700"}, {}, "prod", 0),
        ({_BATCH_CPU: "700", "cpu": "2"}, {}, "free", 2_000),
    ],
)
def test_a_pod_requests_the_resources_of_its_class(
    requests: dict[str, str], limits: dict[str, str], of_class: PriorityClass, expected: int
) -> None:
    demand = compute_demand(pod(containers=(container(requests, limits),)))
    assert find_request("cpu", demand, of_class) == expected


@pytest.mark.parametrize(
    ("of_class", "expected"), [("prod", 250), ("batch", 250), ("mid", 0), ("free", 0)]
)
def test_a_pod_without_requests_has_the_default_amount_of_its_class(
    of_class: PriorityClass, expected: int
) -> None:
    demand = compute_demand(pod(containers=(container({}, {}),)))
    assert resolve_demand("cpu", demand, of_class) == expected


def test_each_class_has_its_own_resource_names() -> None:
    assert [translate_resource("cpu", of_class) for of_class in ("prod", "batch", "mid", "free")] == [
        "cpu", _BATCH_CPU, _MID_CPU, None,
    ]  # fmt: skip
