"""The collections of objects that become records.

A new kind is one entry here and one function that converts its objects.
"""

from collections.abc import Callable
from typing import Any

from connectors.kubernetes.watch.conversions import (
    convert_disruption_budget,
    convert_namespace,
    convert_node,
    convert_priority_class,
)
from connectors.kubernetes.watch.metadata import Json
from connectors.kubernetes.watch.objects import ObjectKind
from connectors.kubernetes.watch.workloads import (
    convert_daemon_set,
    convert_job,
    convert_replica_set,
)
from schemas.messages.nodes import NodeState
from schemas.messages.objects import (
    DisruptionBudget,
    NamespaceState,
    PriorityClassState,
    WorkloadState,
)

#: Path of the pods, which have their own reporter.
PODS = "/api/v1/pods"


def _name(obj: Json) -> Json:
    return {"name": obj["metadata"]["name"]}


def _node(obj: Json) -> Json:
    return {"node": obj["metadata"]["name"]}


def _namespace_and_name(obj: Json) -> Json:
    return {"namespace": obj["metadata"]["namespace"], "name": obj["metadata"]["name"]}


def _workload(kind: str, values: Callable[[Json], Json | None]) -> ObjectKind:
    def identify(obj: Json) -> Json:  # objects in a list do not have their kind
        return {"uid": obj["metadata"]["uid"], "owner_kind": kind, **_namespace_and_name(obj)}

    return ObjectKind(WorkloadState, identify, values)


#: Kinds by path of the collection.
KINDS: dict[str, ObjectKind] = {
    "/api/v1/nodes": ObjectKind(NodeState, _node, convert_node),
    "/api/v1/namespaces": ObjectKind(NamespaceState, _name, convert_namespace),
    "/apis/scheduling.k8s.io/v1/priorityclasses": ObjectKind(
        PriorityClassState, _name, convert_priority_class
    ),
    "/apis/policy/v1/poddisruptionbudgets": ObjectKind(
        DisruptionBudget, _namespace_and_name, convert_disruption_budget
    ),
    "/apis/apps/v1/replicasets": _workload("ReplicaSet", convert_replica_set),
    "/apis/apps/v1/statefulsets": _workload("StatefulSet", convert_replica_set),
    "/apis/apps/v1/daemonsets": _workload("DaemonSet", convert_daemon_set),
    "/apis/batch/v1/jobs": _workload("Job", convert_job),
}

#: Collections that a full list needs: without one, the list would remove all its objects. Other collections
#: may be missing or forbidden; then the list leaves their kinds out.
REQUIRED = frozenset({"/api/v1/nodes", PODS})


def get_record_kind(kind: ObjectKind) -> Any:
    return kind.message.model_fields["kind"].default
