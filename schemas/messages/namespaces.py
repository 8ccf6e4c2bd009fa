"""Namespaces and priority classes, as records of topic `pod-lifecycle`.

A policy can select pods by the labels of their namespace (`evictor.namespaceLabelSelector`) and by the
value of a priority class (`priorityThreshold.name`). Pods only have the names of both.

If a full list contains any namespace, or its end names the kind, then namespaces that are not in the
list are removed; the same applies to priority classes.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import ClusterName, Count, Message, ObjectName, StringMap
from schemas.messages.lists import ListId
from schemas.messages.pods import Namespace


class NamespaceState(Message):
    """A namespace and its labels (key: cluster)."""

    kind: Literal["namespace"] = "namespace"
    """Kind of the record."""
    cluster: ClusterName
    name: Namespace
    """Name of the namespace."""
    labels: StringMap = Field(default_factory=dict)
    """Labels of the namespace."""
    removed: bool = False
    """True: the namespace was deleted."""
    list_id: ListId | None = None
    """Set while a full list is sent."""


class PriorityClassState(Message):
    """A priority class and its value (key: cluster)."""

    kind: Literal["priority-class"] = "priority-class"
    """Kind of the record."""
    cluster: ClusterName
    name: ObjectName
    """Name of the priority class."""
    value: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] = 0
    """Priority of its pods."""
    removed: bool = False
    """True: the priority class was deleted."""
    list_id: ListId | None = None
    """Set while a full list is sent."""


class NamespaceRow(Message):
    """Kind `namespaces`: a namespace and its labels."""

    cluster: ClusterName
    state: NamespaceState
    """The newest record."""
    sequence: Count = 0
    """How many records of the cluster had been applied when the newest record arrived."""


class PriorityClassRow(Message):
    """Kind `priority_classes`: a priority class and its value."""

    cluster: ClusterName
    state: PriorityClassState
    """The newest record."""
    sequence: Count = 0
    """How many records of the cluster had been applied when the newest record arrived."""
