"""Workloads and disruption budgets, as records of topic `pod-lifecycle` beside the pods themselves.

A workload says how many replicas its owner wants, which pods alone do not tell; a disruption budget
says how many of the pods that it selects may go now. Both are part of a full list if the list names
any of their kind, or its end says that the kind is complete: then what it lacks is removed. Another
list says nothing about them.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import ClusterName, Message, ObjectName, Uid
from schemas.messages.lists import ListBegin, ListEnd, ListId
from schemas.messages.namespaces import NamespaceState, PriorityClassState
from schemas.messages.pod_selectors import PodSelector
from schemas.messages.pods import Namespace, PodLifecycle
from schemas.messages.volumes import PersistentVolumeClaimState, PersistentVolumeState

Pods = Annotated[int, Field(ge=0, le=2**31 - 1)]


class WorkloadState(Message):
    """What controls pods, and how many it wants (key: cluster)."""

    kind: Literal["workload"] = "workload"
    """Says what the record is."""
    cluster: ClusterName
    uid: Uid
    """The uid that its pods name as their controller: of a Deployment, that of its ReplicaSet."""
    owner_kind: Annotated[str, Field(min_length=1, max_length=128)]
    """Kind of the controller: ReplicaSet, StatefulSet, Job ..."""
    namespace: Namespace
    """Its namespace."""
    name: ObjectName
    """Its name."""
    replicas: Pods = 0
    """Pods that it wants (spec.replicas; of a Job, those at once of its completions that are left)."""
    evictions_allowed: Pods | None = None
    """Of a Job: pods that may be evicted before that counts as a failure that matters; none: any."""
    removed: bool = False
    """It is there no more."""
    list_id: ListId | None = None
    """Set while a full list is being sent."""


class DisruptionBudget(Message):
    """A PodDisruptionBudget with its status (key: cluster)."""

    kind: Literal["disruption-budget"] = "disruption-budget"
    """Says what the record is."""
    cluster: ClusterName
    namespace: Namespace
    """Its namespace, and that of the pods that it covers."""
    name: ObjectName
    """Its name."""
    selector: PodSelector | None = None
    """Pods that it covers; none: no pod."""
    disruptions_allowed: Pods = 0
    """status.disruptionsAllowed: pods that may be evicted now."""
    current_healthy: Pods = 0
    """status.currentHealthy."""
    desired_healthy: Pods = 0
    """status.desiredHealthy."""
    expected_pods: Pods = 0
    """status.expectedPods."""
    unhealthy_pod_eviction_policy: Literal["IfHealthyBudget", "AlwaysAllow"] = "IfHealthyBudget"
    """Whether a running pod that is not ready may always be evicted, or only while as many pods as
    are desired are healthy."""
    removed: bool = False
    """It is there no more."""
    list_id: ListId | None = None
    """Set while a full list is being sent."""


PodLifecycleRecord = Annotated[
    PodLifecycle
    | WorkloadState
    | DisruptionBudget
    | NamespaceState
    | PriorityClassState
    | PersistentVolumeState
    | PersistentVolumeClaimState
    | ListBegin
    | ListEnd,
    Field(discriminator="kind"),
]
