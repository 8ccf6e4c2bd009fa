"""Objects of all kinds except pods, and their records."""

from typing import Any

import pytest

from connectors.kubernetes.api.list_watch import Changed, Deleted
from connectors.kubernetes.watch.kinds import KINDS
from connectors.kubernetes.watch.objects import Objects
from schemas.messages.nodes import NodeState, Taint
from schemas.messages.objects import (
    DisruptionBudget,
    NamespaceState,
    PriorityClassState,
    WorkloadState,
)
from schemas.messages.pods import PodSelector, SelectorRequirement
from tests.connectors.kubernetes.watch.documents import NODE, OTHERS, changed

ZONE = "topology.kubernetes.io/zone"


def workload(kind: str, name: str, uid: str, replicas: int, **fields: Any) -> WorkloadState:
    return WorkloadState(
        cluster="c",
        uid=uid,
        owner_kind=kind,
        namespace="shop",
        name=name,
        replicas=replicas,
        **fields,
    )


RECORDS: dict[str, Any] = {
    "/api/v1/nodes": NodeState(
        cluster="c",
        node="node-1",
        event="added",
        allocatable={"cpu": "8", "memory": "32Gi", "pods": "110"},
        capacity={"cpu": "8", "memory": "33Gi", "pods": "110"},
        labels={"kubernetes.io/hostname": "node-1", ZONE: "eu-1a"},
        annotations={
            "scheduling.koordinator.sh/usage-thresholds": '{"usageThresholds":{"cpu":70}}'
        },
        taints=(Taint(key="node.kubernetes.io/unreachable", effect="NoExecute"),),
    ),
    "/api/v1/namespaces": NamespaceState(cluster="c", name="shop", labels={"team": "shop"}),
    "/apis/scheduling.k8s.io/v1/priorityclasses": PriorityClassState(
        cluster="c", name="high", value=9500
    ),
    "/apis/policy/v1/poddisruptionbudgets": DisruptionBudget(
        cluster="c",
        namespace="shop",
        name="web",
        selector=PodSelector(match_labels={"app": "web"}),
        disruptions_allowed=1,
        current_healthy=3,
        desired_healthy=2,
        expected_pods=3,
    ),
    "/apis/apps/v1/replicasets": workload("ReplicaSet", "web-6d4cf56db6", "b7c1", 3),
    "/apis/apps/v1/statefulsets": workload("StatefulSet", "db", "d1", 2),
    "/apis/apps/v1/daemonsets": workload("DaemonSet", "agent", "a1", 5),
    "/apis/batch/v1/jobs": workload("Job", "import", "j1", 4, evictions_allowed=6),
}
FOUND = {"/api/v1/nodes": NODE, **OTHERS}


def read(objects: Objects, event: Any) -> list[Any]:
    return [message for _, message in objects.report(event, None)]


@pytest.mark.parametrize("path", KINDS)
def test_an_object_is_one_record_until_its_removal(path: str) -> None:
    objects = Objects("c", KINDS[path])
    assert read(objects, Changed(FOUND[path])) == [RECORDS[path]]
    assert read(objects, Changed(FOUND[path])) == []
    (gone,) = read(objects, Deleted(FOUND[path]))
    assert getattr(gone, "removed", False) or gone.event == "removed"
    assert KINDS[path].identity(FOUND[path]).items() <= gone.model_dump().items()
    assert read(objects, Deleted(FOUND[path])) == []


@pytest.mark.parametrize(
    ("path", "changes", "replicas"),
    [
        ("/apis/apps/v1/replicasets", [("spec/replicas", 0)], 0),
        ("/apis/apps/v1/replicasets", [("spec/replicas", 0), ("status/replicas", 0)], None),
        ("/apis/apps/v1/statefulsets", [("spec/replicas", None)], 1),
        ("/apis/apps/v1/daemonsets", [("status/desiredNumberScheduled", 0)], None),
        ("/apis/batch/v1/jobs", [("spec/parallelism", None)], 1),
        ("/apis/batch/v1/jobs", [("status/succeeded", 3)], 4),
        ("/apis/batch/v1/jobs", [("status/succeeded", 7)], 1),
        ("/apis/batch/v1/jobs", [("spec/completions", None)], 4),
        (
            "/apis/batch/v1/jobs",
            [("spec/completions", None), ("status/succeeded", 1), ("status/active", 2)],
            2,
        ),
        ("/apis/batch/v1/jobs", [("spec/suspend", True)], 0),
        ("/apis/batch/v1/jobs", [("spec/suspend", True), ("status/active", 0)], None),
        (
            "/apis/batch/v1/jobs",
            [("status/conditions", [{"type": "Complete", "status": "True"}])],
            None,
        ),
    ],
)
def test_replicas_are_the_desired_ones_and_finished_workloads_have_no_record(
    path: str, changes: list[tuple[str, Any]], replicas: int | None
) -> None:
    objects = Objects("c", KINDS[path])
    records = read(objects, Changed(changed(FOUND[path], *changes)))
    assert [record.replicas for record in records] == ([] if replicas is None else [replicas])


@pytest.mark.parametrize(
    ("changes", "fields"),
    [
        ([("metadata/generation", 2)], {"disruptions_allowed": 0}),
        ([], {"unhealthy_pod_eviction_policy": "IfHealthyBudget"}),
        (
            [("spec/unhealthyPodEvictionPolicy", "AlwaysAllow")],
            {"unhealthy_pod_eviction_policy": "AlwaysAllow"},
        ),
        ([("spec/selector", None)], {"selector": None}),
        ([("spec/selector", {})], {"selector": PodSelector()}),
        (
            [("spec/selector", {"matchExpressions": [{"key": "a", "operator": "Exists"}]})],
            {
                "selector": PodSelector(
                    match_expressions=(SelectorRequirement(key="a", operator="Exists"),)
                )
            },
        ),
    ],
)
def test_a_budget_record_has_the_values_that_the_api_server_uses(
    changes: list[tuple[str, Any]], fields: dict[str, Any]
) -> None:
    path = "/apis/policy/v1/poddisruptionbudgets"
    (record,) = read(Objects("c", KINDS[path]), Changed(changed(FOUND[path], *changes)))
    assert {name: getattr(record, name) for name in fields} == fields


IGNORED = {"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget", "status": "True"}]}


def fail_on(operator: str, *codes: int) -> Any:
    return {"action": "FailJob", "onExitCodes": {"operator": operator, "values": list(codes)}}


@pytest.mark.parametrize(
    ("changes", "allowed"),
    [
        ([("spec/backoffLimit", 0)], 0),
        ([("spec/backoffLimit", 2), ("status/failed", 1)], 1),
        ([("spec/backoffLimit", 2), ("status/failed", 2)], 0),
        ([("spec/template/spec/restartPolicy", "Never")], 0),
        ([("spec/template/spec/restartPolicy", "Never"), ("spec/podFailurePolicy/rules", [IGNORED])], None),
        ([("spec/backoffLimit", 0), ("spec/podFailurePolicy/rules", [fail_on("In", 42), IGNORED])], None),
        ([("spec/backoffLimit", 0), ("spec/podFailurePolicy/rules", [fail_on("In", 143), IGNORED])], 0),
        ([("spec/backoffLimit", 0), ("spec/podFailurePolicy/rules", [fail_on("NotIn", 42)])], 0),
        ([("spec/backoffLimit", 0), ("spec/podFailurePolicy/rules", [{**IGNORED, "action": "Count"}])], 0),
    ],
)  # fmt: skip
def test_a_job_record_has_the_number_of_tolerated_evictions(
    changes: list[tuple[str, Any]], allowed: int | None
) -> None:
    path = "/apis/batch/v1/jobs"
    (record,) = read(Objects("c", KINDS[path]), Changed(changed(FOUND[path], *changes)))
    assert record.evictions_allowed == allowed


def test_a_node_with_too_many_resources_for_a_record_has_the_first_ones() -> None:
    """Resources of Kubernetes come first, devices with amount 0 last."""
    devices = {f"example.com/{number:03}": str(number % 2) for number in range(80)}
    usual = {"pods": "110", "memory": "1Gi", "hugepages-2Mi": "0", "cpu": "8"}
    objects = Objects("c", KINDS["/api/v1/nodes"])
    (record,) = read(objects, Changed(changed(NODE, ("status/allocatable", {**devices, **usual}))))
    assert isinstance(record, NodeState)
    assert not objects.left_out
    assert len(record.allocatable) == 64
    assert record.allocatable.items() >= usual.items()
    assert {name for name, amount in devices.items() if amount == "1"} <= record.allocatable.keys()
