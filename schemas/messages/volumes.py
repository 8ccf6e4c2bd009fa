"""Persistent volumes and their claims, as records of topic `pod-lifecycle`.

A pod names claims, a claim names its volume, and a volume may be reachable from some nodes only. No
decision uses these records yet: they are accepted and ignored. A producer lists the requirements of a
pod's volumes in its `unsupported` field.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import ClusterName, Message, ObjectName, ResourceList, StringMap
from schemas.messages.lists import ListId
from schemas.messages.pods import Namespace, NodeSelectorTerm

_Text = Annotated[str, Field(max_length=512)]
#: ReadWriteOnce, ReadOnlyMany, ReadWriteMany, ReadWriteOncePod.
_AccessModes = Annotated[tuple[_Text, ...], Field(max_length=16, fail_fast=True)]


class PersistentVolumeState(Message):
    """A persistent volume (key: cluster)."""

    kind: Literal["volume"] = "volume"
    """Kind of the record."""
    cluster: ClusterName
    name: ObjectName
    """Name of the volume."""
    phase: _Text = ""
    """status.phase: Pending, Available, Bound, Released, Failed."""
    storage_class: _Text = ""
    """spec.storageClassName."""
    access_modes: _AccessModes = ()
    """spec.accessModes."""
    capacity: ResourceList = Field(default_factory=dict)
    """spec.capacity."""
    claim_namespace: Annotated[str, Field(max_length=63)] = ""
    """Namespace of the claim that the volume is bound to or reserved for; empty: none."""
    claim_name: Annotated[str, Field(max_length=253)] = ""
    """Name of that claim."""
    required_node_affinity: (
        Annotated[tuple[NodeSelectorTerm, ...], Field(max_length=256, fail_fast=True)] | None
    ) = None
    """Terms of spec.nodeAffinity.required: one must match; none: the volume is reachable from every
    node."""
    zone_labels: StringMap = Field(default_factory=dict)
    """Labels of the volume that name a zone or a region."""
    removed: bool = False
    """True: the volume was deleted."""
    list_id: ListId | None = None
    """Set while a full list is sent."""


class PersistentVolumeClaimState(Message):
    """A claim for a persistent volume (key: cluster)."""

    kind: Literal["volume-claim"] = "volume-claim"
    """Kind of the record."""
    cluster: ClusterName
    namespace: Namespace
    """Namespace of the claim."""
    name: ObjectName
    """Name of the claim."""
    phase: _Text = ""
    """status.phase: Pending, Bound, Lost."""
    storage_class: _Text = ""
    """spec.storageClassName."""
    access_modes: _AccessModes = ()
    """spec.accessModes."""
    requests: ResourceList = Field(default_factory=dict)
    """spec.resources.requests."""
    volume_name: Annotated[str, Field(max_length=253)] = ""
    """spec.volumeName: the volume of the claim; empty: none yet."""
    removed: bool = False
    """True: the claim was deleted."""
    list_id: ListId | None = None
    """Set while a full list is sent."""
