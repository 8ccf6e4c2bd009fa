"""`node-state`: nodes of the cluster, as Kubernetes describes them."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import (
    Entries,
    EpochMs,
    NodeName,
    Part,
    ResourceList,
    StringMap,
)
from schemas.messages.lists import ListBegin, ListedMessage, ListEnd


class Taint(Part):
    """A taint of a node."""

    key: Annotated[str, Field(min_length=1, max_length=317)]
    """Name of the taint."""
    value: Annotated[str, Field(max_length=253)] = ""
    """Value of the taint."""
    effect: Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]
    """Effect on pods that do not tolerate the taint."""


class NodeState(ListedMessage):
    """A node was added, changed or removed (key: cluster)."""

    kind: Literal["node"] = "node"
    """Kind of the record."""
    node: NodeName
    event: Literal["added", "changed", "removed"]
    """The event; in a full list: added. For a removed node only the name matters."""
    allocatable: ResourceList = Field(default_factory=dict)
    """status.allocatable, including pods."""
    capacity: ResourceList = Field(default_factory=dict)
    """status.capacity; metrics above 105 % of it are refused. Empty: unknown."""
    created_at_ms: EpochMs | None = None
    """metadata.creationTimestamp: earlier metrics belong to another node of the same name. None:
    unknown."""
    labels: StringMap = Field(default_factory=dict)
    """metadata.labels."""
    annotations: StringMap = Field(default_factory=dict)
    """metadata.annotations; some of loadstream and Koordinator change thresholds and capacity."""
    taints: Annotated[Entries[Taint], Field(max_length=256)] = ()
    """spec.taints."""
    unschedulable: bool = False
    """spec.unschedulable: the node is cordoned."""


NodeStateRecord = Annotated[NodeState | ListBegin | ListEnd, Field(discriminator="kind")]
