"""Persistent volumes and their claims, as records of topic `pod-lifecycle` beside the pods.

A pod names claims; a claim names the volume that it is bound to; a volume may be reachable from
some nodes only. A decision does not go by these records yet: they are taken in and passed over. A
producer that knows them says in each pod's `unsupported` what its volumes require.
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
    """Says what the record is."""
    cluster: ClusterName
    name: ObjectName
    """Its name."""
    phase: _Text = ""
    """status.phase: Pending, Available, Bound, Released, Failed."""
    storage_class: _Text = ""
    """spec.storageClassName."""
    access_modes: _AccessModes = ()
    """spec.accessModes."""
    capacity: ResourceList = Field(default_factory=dict)
    """spec.capacity."""
    claim_namespace: Annotated[str, Field(max_length=63)] = ""
    """Namespace of the claim that it is bound to, or kept for; empty: none."""
    claim_name: Annotated[str, Field(max_length=253)] = ""
    """Name of that claim."""
    required_node_affinity: (
        Annotated[tuple[NodeSelectorTerm, ...], Field(max_length=256, fail_fast=True)] | None
    ) = None
    """Terms of spec.nodeAffinity.required: one must match; none: it is reachable from every node."""
    zone_labels: StringMap = Field(default_factory=dict)
    """Those of its labels that name a zone or a region."""
    removed: bool = False
    """It is there no more."""
    list_id: ListId | None = None
    """Set while a full list is being sent."""


class PersistentVolumeClaimState(Message):
    """A claim for a persistent volume (key: cluster)."""

    kind: Literal["volume-claim"] = "volume-claim"
    """Says what the record is."""
    cluster: ClusterName
    namespace: Namespace
    """Its namespace."""
    name: ObjectName
    """Its name."""
    phase: _Text = ""
    """status.phase: Pending, Bound, Lost."""
    storage_class: _Text = ""
    """spec.storageClassName."""
    access_modes: _AccessModes = ()
    """spec.accessModes."""
    requests: ResourceList = Field(default_factory=dict)
    """spec.resources.requests."""
    volume_name: Annotated[str, Field(max_length=253)] = ""
    """spec.volumeName: the volume that it is bound to; empty: none yet."""
    removed: bool = False
    """It is there no more."""
    list_id: ListId | None = None
    """Set while a full list is being sent."""
