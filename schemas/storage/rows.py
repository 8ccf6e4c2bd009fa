"""Rows of the tables of the cluster stage: snapshots, written lazily, from which a worker restarts.

All pods of a node are one row, so recovering a large cluster reads thousands of rows and not
hundreds of thousands. `schemas.storage.tables` has the kinds of rows and their keys.

A worker does not notice a row that is missing from a changelog, except rows of a partition or a
cluster. Brokers do not lose acknowledged rows (acks=all, idempotent producer), and the journal
position of the rows is written only after they are acknowledged. Only somebody who deletes records of
a changelog can cause a missing row.
"""

from typing import Annotated

from pydantic import Field

from schemas.base.message import (
    ByName,
    ClusterMessage,
    Count,
    Counts,
    Entries,
    EpochMs,
    Message,
    NodeName,
    Part,
    ResourceAmounts,
    StateMs,
    StringMap,
)
from schemas.messages.decisions import DecisionId, SchedulingRequest
from schemas.messages.lists import ListId
from schemas.messages.metrics import NodeMetric
from schemas.messages.nodes import NodeState
from schemas.messages.pods import Pod
from schemas.messages.policies import PolicyRecord


class GonePod(Part):
    """A pod that has left its node, while the node's mean usage still includes it."""

    at_ms: StateMs
    """Log time at which it left."""
    usage: ResourceAmounts
    """Its usage in the node's newest metric at that time."""


class NodeRow(ClusterMessage):
    """Kind `nodes`: the state of one node."""

    node: NodeName
    state: NodeState | None = None
    """The node in Kubernetes; None: only metrics have arrived."""
    metric: NodeMetric | None = None
    """The newest metric of the node; None: none arrived, or it was removed."""
    metric_time_ms: EpochMs | None = None
    """Update time that estimation uses; kept when a later metric has none, as Koordinator does."""
    list_id: ListId | None = None
    """The last full list that contained the node."""
    gone: Entries[GonePod] = ()
    """Pods that left the node recently."""


class ReservedPod(Part):
    """A pod with room on a node: bound to it, or reserved and not yet confirmed."""

    pod: Pod
    """The newest known state of the pod."""
    counted_labels: StringMap | None = None
    """Labels that estimation uses; None: the labels of `pod`. Estimation ignores changes of labels
    and annotations alone."""
    counted_annotations: StringMap | None = None
    """Annotations that estimation uses; None: the annotations of `pod`."""
    counted_at_ms: StateMs | None = None
    """Since when estimation counts the pod; None: it does not count the pod."""
    assigned_at_ms: StateMs
    """Log time at which the pod got its room; 0: before the first clock tick."""
    decision_id: DecisionId | None = None
    """The placement decision that reserved the room; None: the pod was bound without a decision of
    loadstream."""
    expires_at_ms: EpochMs | None = None
    """End of the reservation; None: the pod's lifecycle has confirmed it."""
    requested_at_ms: EpochMs | None = None
    """When the pod asked for a node."""
    attempt: Count = 0
    """How many attempts to place or to bind the pod had failed before it got its room."""
    sequence: Count = 0
    """How many records of the cluster had been applied when the pod arrived."""
    list_id: ListId | None = None
    """The last full list that contained the pod."""
    arrival: Count
    """Order among the pods of the node: later pods have larger numbers."""


class ReservedPodsRow(ClusterMessage):
    """Kind `reserved_pods`: all pods that have room on one node.

    The journal has the pods one by one, as `ReservedPod`; the key is the row's key, a slash, and the uid
    of the pod.
    """

    node: NodeName
    pods: Entries[ReservedPod]
    """The pods, oldest first."""


class PendingRequestRow(ClusterMessage):
    """Kind `pending_requests`: a request that waits for a node."""

    request: SchedulingRequest
    """The request as received."""
    attempt: Count = 0
    """How many attempts have failed."""
    sequence: Count = 0
    """Order of arrival."""
    not_before_ms: StateMs = 0
    """End of the back-off after a failed binding; the request then joins the group of its kind."""
    applied: Count = 0
    """How many records of the cluster had been applied when it arrived."""
    list_id: ListId | None = None
    """The last full list that contained the pod."""
    excluded: bool = False
    """True: nodes would accept the pod, but its owner is kept away from all of them, so the request
    waits outside of the group of its kind."""


class WaitingGroupRow(ClusterMessage):
    """Kind `waiting_groups`: failed attempts to place one kind of waiting pods.

    A kind without failed attempts has no row.
    """

    kind: Annotated[str, Field(max_length=64)]
    """Digest of the kind."""
    failures: Count = 0
    """Failed attempts in a row."""
    retry_at_ms: StateMs = 0
    """Time of the next attempt."""
    opened_by: Count = 0
    """Changes of a node that may let it accept the kind, as bits."""
    woken: bool = False
    """Such a change has happened since the last failure."""


class ClusterPolicyRow(ClusterMessage):
    """Kind `cluster_policies`: the policy in force in a cluster; without a row: the defaults."""

    policy: PolicyRecord
    """The policy as received."""


class ClusterRow(ClusterMessage):
    """Kind `clusters`: state of the cluster as a whole."""

    records_applied: Count = 0
    """How many records have been applied. Clock ticks count only if they changed something."""
    requests_seen: Count = 0
    """How many requests have arrived; the number of the next request."""
    lists: ByName[tuple[ListId, Count]] = Field(default_factory=dict)
    """Full lists that have begun and not ended: topic to list id and records applied before it."""
    ending: ByName[tuple[ListId, Count]] = Field(default_factory=dict)
    """Full lists that have ended while some missing objects are not removed yet, in the same form.
    """
    last_round_at_ms: EpochMs | None = None
    """Time of the last round of rebalancing; None: there was none."""
    preparation_ticks: Count = 0
    """Clock ticks that have prepared the next round, in a cluster with many nodes."""
    hot_nodes: Count = 0
    """Nodes that the last round found hot or at risk."""
    collect_sent_at_ms: StateMs = 0
    """Log time at which the collect policy was last sent to the aggregate stage; 0: not sent, or
    before the first clock tick."""


class FailedClusterRow(ClusterMessage):
    """Kind `failed_clusters`: a cluster with recent failures of loadstream itself, possibly set
    apart."""

    failed_at_ms: Annotated[Entries[StateMs], Field(max_length=64)] = ()
    """Log times of the newest failures, oldest first; 0: before the first clock tick."""
    reason: Annotated[str, Field(max_length=2_000)] = ""
    """The last failure in a sentence."""
    set_apart: bool = False
    """True: the records of the cluster are not applied, and its other rows are as before the
    failure."""
    set_apart_at_ms: StateMs = 0
    """Log time at which it was set apart."""
    version: Annotated[str, Field(max_length=64)] = ""
    """Version of loadstream that set it apart; another version tries it again."""
    missed: Counts = Field(default_factory=dict)
    """Records for the cluster since then, by topic; they are in `dead-letters`."""


class PartitionRow(Message):
    """Kind `partitions`: clock and input offsets of a partition."""

    partition: Count
    """Number of the partition."""
    now_ms: EpochMs | None = None
    """Time of the last applied clock record."""
    offsets: Counts = Field(default_factory=dict)
    """Offset of the last applied record of each input topic."""


class JournalPositionRow(Message):
    """Kind `journal_positions`: the journal position that the rows of a partition reflect."""

    partition: Count
    """Number of the partition."""
    epoch: Count
    """Epoch of the last applied batch."""
    sequence: Count
    """Number of the last applied batch."""
    offset: Count
    """Offset of the last journal record of that batch."""
    topic_ids: ByName[str] = Field(default_factory=dict)
    """Known ids of the inputs, the journal and the tables' changelogs. A worker does not start if a
    topic has another id."""
