"""`pod-lifecycle`, and the pod as part of requests and table rows; label selectors of pods.

A pod has the fields of a Kubernetes pod on which decisions depend. A connector lists requirements that
loadstream does not support in `unsupported`. loadstream refuses such a pod, and names the requirements.
"""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import Field

from schemas.base.message import (
    Entries,
    EpochMs,
    NodeName,
    ObjectName,
    Part,
    ResourceList,
    StringMap,
    Uid,
)
from schemas.messages.lists import ListedMessage

_Text = Annotated[str, Field(max_length=512)]


class SelectorRequirement(Part):
    """One expression of a label selector."""

    key: _Text
    """Name of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How to compare the label's value with `values`."""
    values: Annotated[Entries[_Text], Field(max_length=1024)] = ()
    """Empty for Exists and DoesNotExist."""


class PodSelector(Part):
    """Selects pods by their labels; without requirements, all pods."""

    match_labels: StringMap = Field(default_factory=dict)
    """Labels that a pod must have."""
    match_expressions: Annotated[Entries[SelectorRequirement], Field(max_length=256)] = ()
    """All expressions must be true."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether the labels meet all requirements; NotIn is true if the label is missing."""
        return matches_labels(self, labels)


def matches_labels(selector: Any, labels: Mapping[str, str]) -> bool:
    """Tell whether labels meet all requirements of a `PodSelector` or `LabelSelector`."""
    return all(labels.get(key) == value for key, value in selector.match_labels.items()) and all(
        _is_met(requirement.operator, requirement.values, labels.get(requirement.key))
        for requirement in selector.match_expressions
    )


def _is_met(operator: str, values: Sequence[str], value: str | None) -> bool:
    if operator == "In":
        return value is not None and value in values
    if operator == "NotIn":
        return value is None or value not in values
    return (value is not None) == (operator == "Exists")


Namespace = Annotated[str, Field(min_length=1, max_length=63, pattern=r"^[^/\s]+$")]
#: Most host ports of one container.
HOST_PORTS_MAX = 256


class HostPort(Part):
    """A port of the node that a container uses."""

    port: Annotated[int, Field(ge=1, le=65_535)]
    """Port number."""
    protocol: Literal["TCP", "UDP", "SCTP"] = "TCP"
    """Protocol of the port."""
    host_ip: Annotated[str, Field(max_length=64)] = ""
    """Address of the node that the port is bound to; empty: all addresses."""


class Container(Part):
    """Requests, limits and host ports of one container."""

    requests: ResourceList = Field(default_factory=dict)
    """resources.requests."""
    limits: ResourceList = Field(default_factory=dict)
    """resources.limits."""
    restart_policy: Literal["Always"] | None = None
    """"Always" on an init container makes it a sidecar."""
    host_ports: Annotated[Entries[HostPort], Field(max_length=HOST_PORTS_MAX)] = ()
    """Ports of the node that the container uses."""


class Toleration(Part):
    """A toleration of a pod; an empty key with Exists tolerates every taint."""

    key: _Text = ""
    """Name of the taint; empty: any."""
    operator: Literal["Exists", "Equal", ""] = "Equal"
    """Equal compares the values, Exists does not; empty: Equal."""
    value: _Text = ""
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute", ""] = ""
    """Effect of the taint; empty: any."""


class NodeRequirement(Part):
    """One expression of a node selector term."""

    key: _Text
    """Name of the label, or of the field."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist", "Gt", "Lt"]
    """How to compare the node's value with `values`."""
    values: Annotated[Entries[_Text], Field(max_length=1024)] = ()
    """Empty for Exists and DoesNotExist, one integer for Gt and Lt."""


class NodeSelectorTerm(Part):
    """All expressions must be true; an empty term matches no node."""

    match_expressions: Annotated[Entries[NodeRequirement], Field(max_length=256)] = ()
    """Expressions on labels of the node."""
    match_fields: Annotated[Entries[NodeRequirement], Field(max_length=16)] = ()
    """Expressions on fields of the node; Kubernetes supports metadata.name."""


class PodAffinityTerm(Part):
    """Pods that a pod keeps away from its node, or from all nodes with the same label value."""

    topology_key: _Text
    """Label of nodes; nodes with the same value form one domain."""
    selector: PodSelector | None = None
    """Selects pods by labels; none: no pod."""
    namespaces: Annotated[Entries[Namespace], Field(max_length=256)] = ()
    """Namespaces of the pods; empty: the namespace of the pod with the term."""
    all_namespaces: bool = False
    """True: pods of every namespace."""


class OwnerReference(Part):
    """An owner of a pod."""

    kind: _Text
    """ReplicaSet, DaemonSet, StatefulSet, Job ..."""
    name: _Text = ""
    """Name of the owner."""
    uid: Annotated[str, Field(max_length=128)] = ""
    """metadata.uid of the owner."""
    controller: bool = False
    """True: this owner controls the pod."""


class VolumeClaim(Part):
    """A volume claim of a pod."""

    name: _Text
    """Name of the claim."""
    storage_class: _Text = ""
    """Storage class of the claim; empty: none, or unknown."""


class PodRef(Part):
    """Identifies a pod."""

    namespace: Namespace
    """Namespace of the pod."""
    name: ObjectName
    """Name of the pod."""
    uid: Uid

    @property
    def ref_fields(self) -> dict[str, str]:
        return {"namespace": self.namespace, "name": self.name, "uid": self.uid}


class Pod(PodRef):
    """A pod, with the fields that decisions depend on."""

    node: NodeName | None = None
    """spec.nodeName: the node that it is bound to."""
    nominated_node: NodeName | None = None
    """status.nominatedNodeName of an unbound pod: another scheduler reserves room for it there."""
    required_node: NodeName | None = None
    """The only node that an unbound pod accepts."""
    scheduler: _Text = ""
    """spec.schedulerName."""
    priority: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] | None = None
    """spec.priority: higher comes first; none: 0."""
    phase: Literal["Pending", "Running", "Succeeded", "Failed", "Unknown"] = "Pending"
    """status.phase."""
    failure: _Text = ""
    """status.reason of a failed pod: OutOfcpu, Evicted ..."""
    qos_class: Literal["Guaranteed", "Burstable", "BestEffort"] | None = None
    """status.qosClass; none: computed from requests and limits."""
    labels: StringMap = Field(default_factory=dict)
    """metadata.labels."""
    annotations: StringMap = Field(default_factory=dict)
    """metadata.annotations; some of loadstream and Koordinator change the estimate."""
    owners: Annotated[Entries[OwnerReference], Field(max_length=64)] = ()
    """metadata.ownerReferences."""
    containers: Annotated[Entries[Container], Field(max_length=512)] = ()
    """spec.containers."""
    init_containers: Annotated[Entries[Container], Field(max_length=512)] = ()
    """spec.initContainers, in order."""
    overhead: ResourceList = Field(default_factory=dict)
    """spec.overhead."""
    node_selector: StringMap = Field(default_factory=dict)
    """spec.nodeSelector: labels that the node must have."""
    required_node_affinity: Annotated[Entries[NodeSelectorTerm], Field(max_length=256)] | None = (
        None
    )
    """Terms of requiredDuringSchedulingIgnoredDuringExecution: one must match; an empty list
    matches no node."""
    required_anti_affinity: Annotated[Entries[PodAffinityTerm], Field(max_length=64)] = ()
    """Terms of podAntiAffinity.requiredDuringSchedulingIgnoredDuringExecution: they keep other pods
    away from the pod."""
    tolerations: Annotated[Entries[Toleration], Field(max_length=256)] = ()
    """spec.tolerations."""
    unsupported: Annotated[Entries[_Text], Field(max_length=32)] = ()
    """Requirements that loadstream does not support: "unbound volume", "pod affinity", "topology
    spread" ..."""
    local_storage: bool = False
    """True: the pod has a volume of type emptyDir or hostPath, which an eviction deletes."""
    volume_claims: Annotated[Entries[VolumeClaim], Field(max_length=256)] = ()
    """Volume claims of the pod."""
    resource_claims: bool = False
    """True: the pod has resource claims (spec.resourceClaims)."""
    created_at_ms: EpochMs | None = None
    """metadata.creationTimestamp."""
    scheduled_at_ms: EpochMs | None = None
    """lastTransitionTime of the condition PodScheduled=True."""
    initialized_at_ms: EpochMs | None = None
    """lastTransitionTime of the condition Initialized=True."""
    deleting_at_ms: EpochMs | None = None
    """metadata.deletionTimestamp: the pod is terminating and must be gone by then."""
    ready: bool = False
    """Condition Ready=True."""

    @property
    def controller(self) -> OwnerReference | None:
        for owner in self.owners:
            if owner.controller and owner.uid:
                return owner
        return None

    @property
    def owner_key(self) -> str:
        """uid of the controller, else namespace/name of the pod."""
        owner = self.controller
        return f"{self.namespace}/{self.name}" if owner is None else owner.uid

    @property
    def has_finished(self) -> bool:
        return self.phase in ("Succeeded", "Failed")


class PodLifecycle(ListedMessage):
    """An event of a pod (key: cluster)."""

    kind: Literal["pod"] = "pod"
    """Kind of the record."""
    event: Literal["seen", "bound", "initialised", "running", "changed", "finished", "deleted"]
    """The event; in a full list: seen."""
    pod: Pod
    """The current pod; if it was deleted, its last known state."""
