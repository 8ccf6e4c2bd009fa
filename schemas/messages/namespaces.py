"""Namespaces and priority classes, as records of topic `pod-lifecycle` beside the pods themselves.

A policy may go by the labels of a pod's namespace (`evictor.namespaceLabelSelector`) and by the
value of a priority class (`priorityThreshold.name`); pods name both and tell neither. Each is part
of a full list if the list names any of its kind, or its end says that the kind is complete: then
what it lacks is removed. Another list says nothing about them.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import ClusterName, Count, Message, ObjectName, StringMap
from schemas.messages.lists import ListId
from schemas.messages.pods import Namespace


class NamespaceState(Message):
    """A namespace and its labels (key: cluster)."""

    kind: Literal["namespace"] = "namespace"
    """Says what the record is."""
    cluster: ClusterName
    name: Namespace
    """Its name."""
    labels: StringMap = Field(default_factory=dict)
    """Its labels."""
    removed: bool = False
    """It is there no more."""
    list_id: ListId | None = None
    """Set while a full list is being sent."""


class PriorityClassState(Message):
    """A priority class and its value (key: cluster)."""

    kind: Literal["priority-class"] = "priority-class"
    """Says what the record is."""
    cluster: ClusterName
    name: ObjectName
    """Its name."""
    value: Annotated[int, Field(ge=-(2**31), le=2**31 - 1)] = 0
    """Priority of its pods."""
    removed: bool = False
    """It is there no more."""
    list_id: ListId | None = None
    """Set while a full list is being sent."""


class NamespaceRow(Message):
    """Kind `namespaces`: a namespace and its labels."""

    cluster: ClusterName
    state: NamespaceState
    """What was said last."""
    sequence: Count = 0
    """How many records of the cluster had been applied when it was named last."""


class PriorityClassRow(Message):
    """Kind `priority_classes`: a priority class and its value."""

    cluster: ClusterName
    state: PriorityClassState
    """What was said last."""
    sequence: Count = 0
    """How many records of the cluster had been applied when it was named last."""
