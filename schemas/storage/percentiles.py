"""Rows of the table `node_percentiles`: the samples behind every node's windows, as they were taken
in.

A partition of `node-usage` has rows of six kinds. Written anew with every batch of input: one of
kind `progress`, and the row of `samples` and of `pod_samples` that is not full yet. A full row is never
written again, only removed when no window needs its samples any more. So what goes to the changelog
grows with new samples and not with the windows, and thousands of samples make a few rows to
recover.

    progress          name: epoch. Up to where the input was applied; written last in a batch
    members           name: node. Pods and host applications of a node, by number
    samples           name: sequence. Figures of nodes and of their system parts
    pod_samples       name: sequence. Figures of pods and host applications, for the average window
    collect_policies  name: sequence. Collect policy of a cluster; none: its first has not come
    topics            Ids of the topics; written when a worker finds them first

Only rows of kind members are of one cluster: the others have samples of many, and no cluster in their
keys.

A batch holds once its progress is written: samples beyond `position` are void, they come again.
Columns are parallel lists, one entry a sample; -1 is a figure that the sample did not have.
"""

from typing import Annotated

from pydantic import Field

from schemas.base.message import (
    INT64_MAX,
    Count,
    DurationMs,
    EpochMs,
    Message,
    Part,
    ResourceName,
    published,
)
from schemas.messages.collect import CollectPolicyRecord

#: Key of `node-usage`: "cluster/node".
NodeKey = Annotated[str, Field(min_length=3, max_length=507)]

_Name = Annotated[str, Field(max_length=253)]
_NodeKeys = Annotated[tuple[NodeKey, ...], Field(fail_fast=True)]
_Counts = Annotated[tuple[Count, ...], Field(fail_fast=True)]
_Times = Annotated[
    tuple[EpochMs, ...],
    Field(fail_fast=True, json_schema_extra=published(unit="ms since 1970-01-01 UTC")),
]
_Figure = Annotated[int, Field(ge=-1, le=INT64_MAX)]
_Figures = Annotated[
    dict[ResourceName, Annotated[tuple[_Figure, ...], Field(fail_fast=True)]],
    Field(
        fail_fast=True,
        json_schema_extra=published(
            unit="cpu: millicores; every other resource: its base unit (bytes, pieces)"
        ),
    ),
]


class Progress(Message):
    """How far a partition of `node-usage` was applied."""

    epoch: Count
    """How often the partition's state was built from its rows; the row with the highest one holds."""
    position: Annotated[int, Field(ge=-1, le=INT64_MAX)]
    """Offset of the record applied last; -1: none."""
    samples_sequence: Count
    """Rows of kind samples with a higher sequence belong to a batch that does not hold."""
    pods_sequence: Count
    """Rows of kind pod_samples with a higher sequence belong to a batch that does not hold."""
    heard_ms: _Times = ()
    """Times of the newest samples, in the order of the log; their median is the partition's clock."""
    since_sweep: Count = 0
    """Records applied since vanished nodes were looked for."""
    forgotten: _NodeKeys = ()
    """Nodes forgotten in this batch: they are void even where their rows are still there."""
    policies_sequence: Count = 0
    """Rows of kind collect_policies with a higher sequence belong to a batch that does not hold."""


class WindowChange(Part):
    """That a cluster's longest windows have changed."""

    offset: Count
    """Offset of the policy's record: what follows counts by the windows after."""
    horizon_ms: DurationMs
    """How long samples were kept until then behind a node's newest."""
    average_horizon_ms: DurationMs
    """How long figures of pods were kept until then."""


class ClusterCollectPolicy(Message):
    """The collect policy of a cluster, and what it left of earlier samples."""

    offset: Count
    """Offset of its record. Beyond `position` the row belongs to a batch that does not hold."""
    record: CollectPolicyRecord
    """The policy as it came."""
    changes: Annotated[tuple[WindowChange, ...], Field(max_length=64, fail_fast=True)] = ()
    """Changes of windows that say which samples counted no more before they became longer, oldest
    first."""


class NodeMember(Part):
    """A pod or a host application, by its number on the node."""

    number: Count
    """Number by which rows of kind pod_samples name it."""
    namespace: _Name = ""
    """Namespace of the pod; empty: a host application."""
    name: _Name
    """Name of the pod or host application."""
    uid: Annotated[str, Field(max_length=128)] = ""
    """metadata.uid of the pod; empty: a host application."""
    priority_class: _Name = ""
    """Class that the node's agent knows it by."""


class NodeMembers(Message):
    """Who is on one node."""

    node: NodeKey
    """Cluster and name of the node."""
    created_offset: Count
    """Offset of the node's first sample; beyond `position` the row belongs to a batch that does not
    hold."""
    next_number: Count
    """Number of the next member that is new."""
    members: Annotated[tuple[NodeMember, ...], Field(fail_fast=True)]
    """Pods and host applications that samples within the average window have, and maybe more."""


class SampleColumns(Message):
    """Figures of nodes, one entry a sample."""

    nodes: _NodeKeys
    """Nodes that the samples are of."""
    node: _Counts
    """Index of the sample's node in `nodes`."""
    offset: _Counts
    """Offset of the sample's record."""
    since_offset: _Counts
    """Offset with which the node's window began: its samples before that are void."""
    sampled_at_ms: _Times
    """Time of the sample."""
    anchor_ms: _Times
    """Time of the node's newest report, or of its first sample: the report interval counts from it."""
    digest: _Counts
    """CRC-32 of the record's value: distinguishes a sample that came twice from another one of the
    same time."""
    usage: _Figures
    """Usage of the node, by resource."""
    system: _Figures
    """Usage of the system part, by resource; the same resources."""


_PackedFigures = Annotated[dict[ResourceName, str], Field(fail_fast=True)]


class PackedLifetimes(Part):
    """Lifetimes of the members of some samples, as columns with one entry a member, sample after
    sample.

    A column is base64: a byte that says how many bits each number has, then one more than each
    number, the highest bit first, without gaps.
    """

    samples: _Counts
    """Indexes of the samples that extended the lifetimes of their members."""
    minutes: str
    """For how many minutes each has been measured."""
    mean: _PackedFigures
    """Mean usage over the lifetime of each, by resource, in thousandths of the unit; -1: not measured."""
    deviation: _PackedFigures
    """Standard deviation of each, likewise; the same resources."""


class PodColumns(Message):
    """Figures of pods and host applications, one entry a sample and below one a member of it."""

    nodes: _NodeKeys
    """Nodes that the samples are of."""
    node: _Counts
    """Index of the sample's node in `nodes`."""
    offset: _Counts
    """Offset of the sample's record."""
    members: _Counts
    """How many members the sample has."""
    number: _Counts
    """Numbers of the members, sample after sample."""
    usage: _Figures
    """Usage of the members, sample after sample, by resource."""
    lifetimes: PackedLifetimes | None = None
    """Lifetimes of the members of some samples; none: of no sample."""


class TopicIds(Message):
    """Topics that the rows of a partition are made from."""

    ids: Annotated[dict[str, str], Field(fail_fast=True)]
    """Ids of `node-usage` and of the table's changelog, as far as they are known: a worker does not
    start if a topic has another one."""
