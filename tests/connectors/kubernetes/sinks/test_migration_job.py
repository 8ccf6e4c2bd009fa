"""Reading a PodMigrationJob and writing its status."""

from typing import Any

import pytest

from connectors.kubernetes.sinks.migration_job import build_request, build_status, read_job
from schemas.messages.migrations import Condition, MigrationStatus
from schemas.messages.pods import PodRef
from tests.connectors.ports.sink_contract import _AS_OF, CLUSTER, NOW_MS

POD = PodRef(namespace="shop", name="web-1", uid="uid-1")


def job_object(name: str = "move-web", **spec: Any) -> dict[str, Any]:
    """Return a job as Kubernetes returns it."""
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "PodMigrationJob",
        "metadata": {
            "name": name, "uid": f"job-{name}", "generation": 1, "resourceVersion": "1",
            "creationTimestamp": "2026-03-02T00:00:00Z",
        },
        "spec": {
            "podRef": {"namespace": "shop", "name": "web-1"}, "mode": "ReservationFirst",
            "ttl": "5m0s", "paused": False, **spec,
        },
    }  # fmt: skip


def status(**more: Any) -> MigrationStatus:
    """Return a state of the migration of the pod."""
    values: dict[str, Any] = {
        "cluster": CLUSTER, "migration_id": "migration-1", "pod": POD, "source_node": "node-1",
        "mode": "ReservationFirst", "phase": "Running", "reason": "Evicting",
        "message": "command 1 is out", "trigger": "request", "deadline_ms": NOW_MS,
        "created_at_ms": NOW_MS, "changed_at_ms": NOW_MS, "happened_at_ms": NOW_MS,
        "as_of": _AS_OF,
    }  # fmt: skip
    return MigrationStatus(**(values | more))


def test_a_job_is_a_request_to_migrate_its_pod() -> None:
    job = job_object()
    job["metadata"]["annotations"] = {"koordinator.sh/evict-reason": "maintenance"}
    request = build_request(read_job(job), CLUSTER, POD)
    assert request.payload() == {
        "schema_version": 1,
        "request_id": "pmj-job-move-web",
        "cluster": CLUSTER,
        "action": "migrate",
        "pod": {"namespace": "shop", "name": "web-1", "uid": "uid-1"},
        "mode": "ReservationFirst",
        "ttl_ms": 300_000,
        "ignore_windows": False,
        "reason": "maintenance",
        "requested_at_ms": NOW_MS,
    }


def test_the_policy_fills_in_what_a_job_does_not_set() -> None:
    request = build_request(read_job(job_object(mode="", ttl="")), CLUSTER, POD)
    assert (request.mode, request.ttl_ms) == (None, None)
    assert request.reason == "PodMigrationJob move-web"


@pytest.mark.parametrize(
    ("spec", "complaint"),
    [
        ({"mode": "Teleport"}, "spec.mode is 'Teleport'; allowed are ReservationFirst, EvictDirec"),
        ({"ttl": "soon"}, "spec.ttl: 'soon' is not a duration"),
        (
            {"ttl": "999h0m0s"},
            "spec.ttl is 999h0m0s; allowed are 0s .the policy's default. to 24h",
        ),
        ({"ttl": "-5m0s"}, "spec.ttl is -5m0s; allowed are 0s"),
    ],
)
def test_an_unreadable_job_is_refused_with_the_reason(spec: dict[str, Any], complaint: str) -> None:
    with pytest.raises(ValueError, match="^" + complaint.replace("(", "\\(")):
        build_request(read_job(job_object(**spec)), CLUSTER, POD)


def test_a_status_uses_the_words_of_koordinator() -> None:
    replacement = POD.model_copy(update={"name": "web-2", "uid": "uid-2"})
    conditions = (
        Condition(type="ReservationCreated", status=True, changed_at_ms=NOW_MS),
        Condition(
            type="Eviction", status=False, reason="Evicting", message="m",
            changed_at_ms=NOW_MS + 1000,
        ),
    )  # fmt: skip
    message = status(conditions=conditions, replacement=replacement, happened_at_ms=NOW_MS + 2000)
    assert build_status(message, read_job(job_object())) == {
        "phase": "Running",
        "status": "Eviction",
        "reason": "Evicting",
        "message": "command 1 is out",
        "nodeName": "node-1",
        "conditions": [
            {
                "type": "ReservationCreated",
                "status": "True",
                "reason": "",
                "message": "",
                "lastProbeTime": "2026-03-02T00:00:02Z",
                "lastTransitionTime": "2026-03-02T00:00:00Z",
            },
            {
                "type": "Eviction",
                "status": "False",
                "reason": "Evicting",
                "message": "m",
                "lastProbeTime": "2026-03-02T00:00:02Z",
                "lastTransitionTime": "2026-03-02T00:00:01Z",
            },
        ],
        "podRef": {
            "apiVersion": "v1",
            "kind": "Pod",
            "namespace": "shop",
            "name": "web-2",
            "uid": "uid-2",
        },
    }
