"""Namespaces, priority classes, workloads and disruption budgets, as records of `pod-lifecycle`.

A policy can select pods by the labels of their namespace (`evictor.namespaceLabelSelector`) and by the
value of a priority class (`priorityThreshold.name`). Pods only have the names of both. A workload has
the desired number of replicas, and a disruption budget the number of its pods that may be disrupted now.

If a full list contains any object of a kind, or its end names the kind, then objects of the kind that are
not in the list are removed.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import ClusterMessage, Count, ObjectName, StringMap, Uid
from schemas.messages.lists import ListBegin, ListedMessage, ListEnd
from schemas.messages.pods import Namespace, PodLifecycle, PodSelector


class ObjectState(ListedMessage):
    """Fields of all objects in this module."""

    removed: bool = False
    """True: the object was deleted."""


class NamespaceState(ObjectState):
    """A namespace and its labels (key: cluster)."""

    kind: Literal["namespace"] = "namespace"
    """Kind of the record."""
    name: Namespace
    """Name of the namespace."""
    labels: StringMap = Field(default_factory=dict)
    """Labels of the namespace."""


class PriorityClassState(ObjectState):
    """A priority class and its value (key: cluster)."""

    kind: Literal["priority-class"] = "priority-class"
    """Kind of the record."""
    name: ObjectName
    """Name of the priority class."""
    value: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] = 0
    """Priority of its pods."""


class NamespaceRow(ClusterMessage):
    """Kind `namespaces`: a namespace and its labels."""

    state: NamespaceState
    """The newest record."""
    sequence: Count = 0
    """How many records of the cluster had been applied when the newest record arrived."""


class PriorityClassRow(ClusterMessage):
    """Kind `priority_classes`: a priority class and its value."""

    state: PriorityClassState
    """The newest record."""
    sequence: Count = 0
    """How many records of the cluster had been applied when the newest record arrived."""


Pods = Annotated[int, Field(ge=0, le=2**31 - 1)]


class WorkloadState(ObjectState):
    """A controller of pods and its desired replicas (key: cluster)."""

    kind: Literal["workload"] = "workload"
    """Kind of the record."""
    uid: Uid
    """uid of the controller, as in its pods; for a Deployment, the uid of its ReplicaSet."""
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


class DisruptionBudget(ObjectState):
    """A PodDisruptionBudget with its status (key: cluster)."""

    kind: Literal["disruption-budget"] = "disruption-budget"
    """Kind of the record."""
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
