"""Rows of the tables: packed snapshots, written lazily, from which a worker starts again.

No row holds a pod alone: a node's pods are one row, so that recovering a large cluster reads thousands
of rows and not hundreds of thousands. Which rows a table has, and their keys: `schemas.storage.tables`.

Rows are not counted, and so a row that is gone from a changelog is not noticed. Brokers lose none that
they have acknowledged (acks=all, an idempotent producer), and how far rows reflect the journal is
written after they are acknowledged. Somebody would have to delete records of a changelog; what must
be there in any case (the partition's row and each cluster's own) is checked.
"""

from typing import Annotated

from pydantic import Field

from schemas.base.message import (
    ClusterName,
    Count,
    Counts,
    EpochMs,
    Message,
    NodeName,
    Part,
    ResourceAmounts,
    StateMs,
    StringMap,
    published,
)
from schemas.messages.decisions import DecisionId
from schemas.messages.lists import ListId
from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Pod
from schemas.messages.policies import PolicyRecord
from schemas.messages.requests import SchedulingRequest


class GonePod(Part):
    """A pod that has left its node, whose usage the node's means still contain."""

    at_ms: StateMs
    """The log's time at which it left."""
    usage: ResourceAmounts
    """Its usage in the newest metric then."""


class NodeRow(Message):
    """Kind `nodes`: what is known of one node."""

    cluster: ClusterName
    node: NodeName
    state: NodeState | None = None
    """What Kubernetes says; none: metrics came before Kubernetes named the node."""
    metric: NodeMetric | None = None
    """Its newest metric; none: none came yet, or it was removed."""
    metric_time_ms: EpochMs | None = None
    """Update time that estimation goes by; kept when a later metric brings none, as Koordinator
    does."""
    list_id: ListId | None = None
    """The full list that named it last."""
    gone: Annotated[tuple[GonePod, ...], Field(fail_fast=True)] = ()
    """Pods that have left it lately."""


class HeldPod(Part):
    """A pod that takes room on a node: bound there, or reserved and not yet confirmed."""

    pod: Pod
    """The newest state heard of it."""
    counted_labels: StringMap | None = None
    """Labels by which it counts for estimation; none: those of `pod`. Estimation overlooks later
    changes of labels and annotations alone."""
    counted_annotations: StringMap | None = None
    """Annotations by which it counts for estimation; none: those of `pod`."""
    counted_at_ms: StateMs | None = None
    """When it began to count; none: it does not count for estimation."""
    assigned_at_ms: StateMs
    """The log's time at which its room was taken; 0: before the first tick of the clock."""
    decision_id: DecisionId | None = None
    """The placement decision that reserved the room; none: seen bound without one of ours."""
    expires_at_ms: EpochMs | None = None
    """Reserved until then; none: confirmed by the pod's lifecycle."""
    requested_at_ms: EpochMs | None = None
    """When the pod asked for a node."""
    attempt: Count = 0
    """How many attempts to place or to bind it had failed when its room was taken."""
    sequence: Count = 0
    """How many records of the cluster had been applied when it was taken in."""
    list_id: ListId | None = None
    """The full list that named it last."""
    place: Count
    """Orders the pods of a node: those taken in later have greater ones."""


class ReservedPodsRow(Message):
    """Kind `reserved_pods`: all pods that take room on one node.

    The journal has them one by one, as `HeldPod`, under the row's key with a slash and the pod's
    uid after it.
    """

    cluster: ClusterName
    node: NodeName
    pods: Annotated[tuple[HeldPod, ...], Field(fail_fast=True)]
    """The pods, those taken in first before."""


class PendingRequestRow(Message):
    """Kind `pending_requests`: a request that waits for a node."""

    cluster: ClusterName
    request: SchedulingRequest
    """The request as it came."""
    attempt: Count = 0
    """How many attempts have failed."""
    sequence: Count = 0
    """Order of arrival."""
    not_before_ms: StateMs = 0
    """Its own back-off after a failed binding: it joins its kind's group then."""
    applied: Count = 0
    """How many records of the cluster had been applied when it came."""
    list_id: ListId | None = None
    """The full list that named its pod last."""
    excluded: bool = False
    """Nodes would take its kind, and its owner is kept away from all of them: it waits alone."""


#: Resources by which pods are counted: those that a policy of the greatest size may name.
COUNTED_RESOURCES_MAX = 16_384


class WaitingGroupRow(Message):
    """Kind `waiting_groups`: what is known of the chances of one kind of waiting pods.

    A kind of which nothing is known has no row.
    """

    cluster: ClusterName
    kind: Annotated[str, Field(max_length=64)]
    """Digest of the kind."""
    failures: Count = 0
    """Failed attempts in a row."""
    retry_at_ms: StateMs = 0
    """Not tried again before."""
    opened_by: Count = 0
    """Changes of a node that may let it take the kind, as bits."""
    woken: bool = False
    """Such a change has come since the last failure."""


class ClusterPolicyRow(Message):
    """Kind `cluster_policies`: the policy in force in a cluster; none: defaults."""

    cluster: ClusterName
    policy: PolicyRecord
    """The policy as it came."""


class ClusterRow(Message):
    """Kind `clusters`: what belongs to the cluster as a whole."""

    cluster: ClusterName
    applied: Count = 0
    """How many records have been applied; ticks of the clock only where something came of them."""
    requests_seen: Count = 0
    """How many requests have arrived; numbers the next one."""
    lists: Annotated[dict[str, tuple[ListId, Count]], Field(fail_fast=True)] = Field(
        default_factory=dict
    )
    """Full lists that have begun and not ended: topic to list id, and records applied before it."""
    endings: Annotated[dict[str, tuple[ListId, Count]], Field(fail_fast=True)] = Field(
        default_factory=dict
    )
    """Full lists that have ended while not all that they lack is removed yet, in the same form."""
    last_round_at_ms: EpochMs | None = None
    """Time of the last round of rebalancing; none: there was none."""
    round_ticks_ahead: Count = 0
    """Ticks that have prepared the next round, of a cluster with many nodes."""
    hot_nodes: Count = 0
    """Nodes that the last round has found hot or at risk."""
    collect_relayed_at_ms: StateMs = 0
    """The log's time at which the collect policy was handed on to the aggregate stage last; 0: it
    was not, or before the first tick of the clock."""


class FailedClusterRow(Message):
    """Kind `failed_clusters`: a cluster that made loadstream itself fail lately, or is set apart."""

    cluster: ClusterName
    failed_at_ms: Annotated[
        tuple[StateMs, ...],
        Field(
            max_length=64,
            fail_fast=True,
            json_schema_extra=published(unit="ms since 1970-01-01 UTC"),
        ),
    ] = ()
    """The log's times of the newest failures, oldest first; 0: before the first tick of the clock."""
    reason: Annotated[str, Field(max_length=2_000)] = ""
    """What failed last, in a sentence."""
    set_apart: bool = False
    """Its records are not applied; its other rows are as they were before the failure."""
    set_apart_at_ms: StateMs = 0
    """The log's time of that."""
    version: Annotated[str, Field(max_length=64)] = ""
    """Version of loadstream that set it apart; another one tries it again."""
    missed: Counts = Field(default_factory=dict)
    """Records that came for it since, by topic; they are in `dead-letters`."""


class PartitionRow(Message):
    """Kind `partitions`: how far a partition has been read, and what time it is there."""

    partition: Count
    """Number of the partition."""
    now_ms: EpochMs | None = None
    """Time of the last clock record applied."""
    offsets: Counts = Field(default_factory=dict)
    """Offset applied last of each input topic."""


class JournalPositionRow(Message):
    """Kind `journal_positions`: up to where in the journal the rows of a partition reflect it."""

    partition: Count
    """Number of the partition."""
    epoch: Count
    """Epoch of the batch applied last."""
    sequence: Count
    """Number of the batch applied last."""
    offset: Count
    """Offset of the last journal record of that batch."""
    topic_ids: Annotated[dict[str, str], Field(fail_fast=True)] = Field(default_factory=dict)
    """Ids of the inputs, the journal and the tables' changelogs, as far as they are known: a worker
    does not start if a topic has another one."""
