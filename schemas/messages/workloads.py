"""Workloads and disruption budgets, as records of topic `pod-lifecycle`.

A workload has the desired number of replicas, which pods do not tell. A disruption budget has the
number of its pods that may be disrupted now. If a full list contains any workload, or its end names
the kind, then workloads that are not in the list are removed; the same applies to budgets.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import ClusterName, Message, ObjectName, Uid
from schemas.messages.lists import ListBegin, ListEnd, ListId
from schemas.messages.namespaces import NamespaceState, PriorityClassState
from schemas.messages.pod_selectors import PodSelector
from schemas.messages.pods import Namespace, PodLifecycle

Pods = Annotated[int, Field(ge=0, le=2**31 - 1)]


class WorkloadState(Message):
    """A controller of pods and its desired replicas (key: cluster)."""

    kind: Literal["workload"] = "workload"
    """Kind of the record."""
    cluster: ClusterName
    uid: Uid
    """uid of the controller as its pods have it; for a Deployment, that of its ReplicaSet."""
    owner_kind: Annotated[str, Field(min_length=1, max_length=128)]
    """Kind of the controller: ReplicaSet, StatefulSet, Job ..."""
    namespace: Namespace
    """Namespace of the controller."""
    name: ObjectName
    """Name of the controller."""
    replicas: Pods = 0
    """Desired pods (spec.replicas; for a Job, its parallelism, limited to the remaining
    completions)."""
    evictions_allowed: Pods | None = None
    """Only for a Job: pods that may be evicted before evictions count as failures; none: any
    number."""
    removed: bool = False
    """True: the workload was deleted."""
    list_id: ListId | None = None
    """Set while a full list is sent."""


class DisruptionBudget(Message):
    """A PodDisruptionBudget with its status (key: cluster)."""

    kind: Literal["disruption-budget"] = "disruption-budget"
    """Kind of the record."""
    cluster: ClusterName
    namespace: Namespace
    """Namespace of the budget and of its pods."""
    name: ObjectName
    """Name of the budget."""
    selector: PodSelector | None = None
    """Selects the covered pods; none: no pod."""
    disruptions_allowed: Pods = 0
    """status.disruptionsAllowed: pods that may be evicted now."""
    current_healthy: Pods = 0
    """status.currentHealthy."""
    desired_healthy: Pods = 0
    """status.desiredHealthy."""
    expected_pods: Pods = 0
    """status.expectedPods."""
    unhealthy_pod_eviction_policy: Literal["IfHealthyBudget", "AlwaysAllow"] = "IfHealthyBudget"
    """Whether a running pod that is not ready may always be evicted, or only while the desired
    number of pods is healthy."""
    removed: bool = False
    """True: the budget was deleted."""
    list_id: ListId | None = None
    """Set while a full list is sent."""


PodLifecycleRecord = Annotated[
    PodLifecycle
    | WorkloadState
    | DisruptionBudget
    | NamespaceState
    | PriorityClassState
    | ListBegin
    | ListEnd,
    Field(discriminator="kind"),
]
