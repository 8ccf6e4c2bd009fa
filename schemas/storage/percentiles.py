"""Rows of table `node_percentiles`: the usage samples of all nodes, as received.

    progress          name: epoch. Position in the input; written last in a batch
    members           name: node. Pods and host applications of a node, by number
    samples           name: sequence. Usage of nodes and of their system parts
    pod_samples       name: sequence. Usage of pods and host applications, for the average window
    collect_policies  name: sequence. Collect policy of a cluster; None until the first arrives
    topics            ids of the topics; written when a worker first sees them

Each batch writes `progress` and the rows of `samples` and `pod_samples` that are not full yet. A full
row is not written again; it is removed when no window needs its samples. So the changelog grows with
new samples and not with the windows, and recovery reads few rows.

Only rows of kind `members` belong to one cluster. The other rows have samples of many clusters, and
no cluster in their keys.

A batch is valid once its progress is written: samples beyond `position` are ignored, because they
will be read again. Columns are parallel lists with one entry per sample; -1 means that the sample
does not have the value.
"""

from typing import Annotated

from pydantic import Field

from schemas.base.message import (
    AMOUNTS_UNIT,
    INT64_MAX,
    ByName,
    Count,
    DurationMs,
    Entries,
    EpochMs,
    Message,
    Part,
    ResourceName,
)
from schemas.messages.usage import CollectPolicyRecord

#: Key of `node-usage`: "cluster/node".
NodeKey = Annotated[str, Field(min_length=3, max_length=507)]

_Name = Annotated[str, Field(max_length=253)]
_NodeKeys = Entries[NodeKey]
_Counts = Entries[Count]
_Times = Entries[EpochMs]
_Figure = Annotated[int, Field(ge=-1, le=INT64_MAX)]
_Columns = Annotated[dict[ResourceName, Entries[_Figure]], Field(fail_fast=True)]
_Figures = Annotated[_Columns, AMOUNTS_UNIT]


class Progress(Message):
    """Position of a partition of `node-usage`."""

    epoch: Count
    """How often the partition's state was rebuilt from its rows; the row with the highest epoch is
    valid."""
    position: Annotated[int, Field(ge=-1, le=INT64_MAX)]
    """Offset of the last applied record; -1: none."""
    samples_sequence: Count
    """Rows of kind samples with a higher sequence belong to an incomplete batch."""
    pods_sequence: Count
    """Rows of kind pod_samples with a higher sequence belong to an incomplete batch."""
    newest_ms: _Times = ()
    """Times of the newest samples, in the order of the log. Their median is the partition's
    clock."""
    since_sweep: Count = 0
    """Records applied since the last search for vanished nodes."""
    forgotten: _NodeKeys = ()
    """Nodes forgotten in this batch: their remaining rows are ignored."""
    policies_sequence: Count = 0
    """Rows of kind collect_policies with a higher sequence belong to an incomplete batch."""


class WindowChange(Part):
    """A change of a cluster's longest windows."""

    offset: Count
    """Offset of the policy's record: the new windows apply to later samples."""
    horizon_ms: DurationMs
    """How long node samples were kept before the change, counted from a node's newest sample."""
    average_horizon_ms: DurationMs
    """How long pod samples were kept before the change."""


class ClusterCollectPolicy(Message):
    """The collect policy of a cluster, and earlier changes of its windows."""

    offset: Count
    """Offset of its record. Beyond `position` the row belongs to an incomplete batch."""
    record: CollectPolicyRecord
    """The policy as received."""
    changes: Annotated[Entries[WindowChange], Field(max_length=64)] = ()
    """Changes of windows, oldest first. Samples that a shorter window had dropped stay dropped when
    the window becomes longer."""


class NodeMember(Part):
    """A pod or a host application, by its number on the node."""

    number: Count
    """Number of the member in rows of kind pod_samples."""
    namespace: _Name = ""
    """Namespace of the pod; empty: a host application."""
    name: _Name
    """Name of the pod or host application."""
    uid: Annotated[str, Field(max_length=128)] = ""
    """metadata.uid of the pod; empty: a host application."""
    priority_class: _Name = ""
    """Priority class as the node's agent reports it."""


class NodeMembers(Message):
    """Pods and host applications of one node."""

    node: NodeKey
    """Cluster and name of the node."""
    created_offset: Count
    """Offset of the node's first sample; beyond `position` the row belongs to an incomplete batch.
    """
    next_number: Count
    """Number of the next new member."""
    members: Entries[NodeMember]
    """All members that samples within the average window refer to, and possibly more."""


class SampleColumns(Message):
    """Usage samples of nodes, one entry per sample."""

    nodes: _NodeKeys
    """Nodes of the samples."""
    node: _Counts
    """Index of the sample's node in `nodes`."""
    offset: _Counts
    """Offset of the sample's record."""
    since_offset: _Counts
    """Offset at which the node's window began; its earlier samples are ignored."""
    sampled_at_ms: _Times
    """Time of the sample."""
    reported_at_ms: _Times
    """Time of the node's last report, or of its first sample: the report interval counts from it.
    """
    digest: _Counts
    """CRC-32 of the record's value: distinguishes a repeated sample from another sample of the same
    time."""
    usage: _Figures
    """Usage of the node, by resource."""
    system: _Figures
    """Usage of the system part; the same resources."""


class LifetimeColumns(Part):
    """Lifetime usage of the members of some samples, as columns with one entry per member."""

    samples: _Counts
    """Indexes of the samples that extended the lifetimes of their members."""
    minutes: _Counts
    """Measured minutes of each member."""
    mean: _Columns
    """Mean usage of each member over its lifetime, by resource, in thousandths of the unit; -1: not
    measured."""
    deviation: _Columns
    """Standard deviation of each member's usage, in the same form; the same resources."""


class PodColumns(Message):
    """Usage samples of pods and host applications.

    Columns of members have all members of the first sample, then all members of the second, and so on.
    """

    nodes: _NodeKeys
    """Nodes of the samples."""
    node: _Counts
    """Index of the sample's node in `nodes`."""
    offset: _Counts
    """Offset of the sample's record."""
    members: _Counts
    """Number of members of the sample."""
    number: _Counts
    """Numbers of the members."""
    usage: _Figures
    """Usage of the members, by resource."""
    lifetimes: LifetimeColumns | None = None
    """Lifetime usage of the members of some samples; None: of no sample."""


class TopicIds(Message):
    """Ids of the topics that the rows of a partition were computed from."""

    ids: ByName[str]
    """Known ids of `node-usage` and of the table's changelog. A worker does not start if a topic
    has another id."""
