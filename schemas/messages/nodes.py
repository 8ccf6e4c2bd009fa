"""`node-state`: what Kubernetes says about a node."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import (
    ClusterName,
    EpochMs,
    Message,
    NodeName,
    Part,
    ResourceList,
    StringMap,
)
from schemas.messages.lists import ListBegin, ListEnd, ListId


class Taint(Part):
    """A taint of a node."""

    key: Annotated[str, Field(min_length=1, max_length=317)]
    """Name of the taint."""
    value: Annotated[str, Field(max_length=253)] = ""
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    """What it does to pods that do not tolerate it."""


class NodeState(Message):
    """A node was added, changed or removed (key: cluster)."""

    kind: Literal["node"] = "node"
    """Says what the record is."""
    cluster: ClusterName
    node: NodeName
    event: Literal["added", "changed", "removed"]
    """What happened; in a full list: added. Of a removed node only the name counts."""
    list_id: ListId | None = None
    """Set while a full list is being sent."""
    allocatable: ResourceList = Field(default_factory=dict)
    """status.allocatable, pods included."""
    capacity: ResourceList = Field(default_factory=dict)
    """status.capacity; a metric with more than 105 % of it is refused. Empty: not known."""
    created_at_ms: EpochMs | None = None
    """metadata.creationTimestamp: earlier metrics are of another node of its name. None: not known."""
    labels: StringMap = Field(default_factory=dict)
    """metadata.labels."""
    annotations: StringMap = Field(default_factory=dict)
    """metadata.annotations; those of loadstream and Koordinator change thresholds and capacity."""
    taints: Annotated[tuple[Taint, ...], Field(max_length=256, fail_fast=True)] = ()
    """spec.taints."""
    unschedulable: bool = False
    """spec.unschedulable: the node is cordoned."""


NodeStateRecord = Annotated[NodeState | ListBegin | ListEnd, Field(discriminator="kind")]
