"""Which collections are watched, and what their objects become.

A new kind is one entry here and one module with its conversion.
"""

from collections.abc import Callable
from typing import Any

from connectors.kubernetes.watch.budgets import disruption_budget
from connectors.kubernetes.watch.metadata import Json
from connectors.kubernetes.watch.namespaces import namespace
from connectors.kubernetes.watch.nodes import node_state
from connectors.kubernetes.watch.objects import ObjectKind
from connectors.kubernetes.watch.priority_classes import priority_class
from connectors.kubernetes.watch.volumes import volume, volume_claim
from connectors.kubernetes.watch.workloads import daemon_set, job, replica_set
from schemas.messages.namespaces import NamespaceState, PriorityClassState
from schemas.messages.nodes import NodeState
from schemas.messages.volumes import PersistentVolumeClaimState, PersistentVolumeState
from schemas.messages.workloads import DisruptionBudget, WorkloadState

#: Path of the pods; they have a reporter of their own.
PODS = "/api/v1/pods"
VOLUMES, CLAIMS = "/api/v1/persistentvolumes", "/api/v1/persistentvolumeclaims"


def _name(found: Json) -> Json:
    return {"name": found["metadata"]["name"]}


def _node(found: Json) -> Json:
    return {"node": found["metadata"]["name"]}


def _namespaced(found: Json) -> Json:
    return {"namespace": found["metadata"]["namespace"], "name": found["metadata"]["name"]}


def _owner(kind: str) -> Callable[[Json], Json]:
    """Identity of a workload; objects of a list do not name their kind."""

    def identity(found: Json) -> Json:
        return {"uid": found["metadata"]["uid"], "owner_kind": kind, **_namespaced(found)}

    return identity


def _workload(kind: str, values: Callable[[Json], Json | None]) -> ObjectKind:
    return ObjectKind(WorkloadState, _owner(kind), values)


#: By path of the collection.
KINDS: dict[str, ObjectKind] = {
    "/api/v1/nodes": ObjectKind(NodeState, _node, node_state),
    VOLUMES: ObjectKind(PersistentVolumeState, _name, volume),
    CLAIMS: ObjectKind(PersistentVolumeClaimState, _namespaced, volume_claim),
    "/api/v1/namespaces": ObjectKind(NamespaceState, _name, namespace),
    "/apis/scheduling.k8s.io/v1/priorityclasses": ObjectKind(
        PriorityClassState, _name, priority_class
    ),
    "/apis/policy/v1/poddisruptionbudgets": ObjectKind(
        DisruptionBudget, _namespaced, disruption_budget
    ),
    "/apis/apps/v1/replicasets": _workload("ReplicaSet", replica_set),
    "/apis/apps/v1/statefulsets": _workload("StatefulSet", replica_set),
    "/apis/apps/v1/daemonsets": _workload("DaemonSet", daemon_set),
    "/apis/batch/v1/jobs": _workload("Job", job),
}

#: Collections without which there is no full list: a list that lacked their objects would remove
#: all of them. Others may be missing or forbidden; then nothing is said about their kind.
REQUIRED = frozenset({"/api/v1/nodes", PODS})


def record_kind(kind: ObjectKind) -> Any:
    """What records of a kind have in their field `kind`."""
    return kind.message.model_fields["kind"].default
