"""`placement-decisions`: a node for a pod, or why there is none.

A decision explains itself: what it was computed from (`as_of`), how many nodes each filter refused
and for which reasons, the score terms of the winner and of the runners-up, how many nodes were
stale.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import (
    INT64_MAX,
    INT64_MIN,
    ClusterName,
    Count,
    Counts,
    DurationMs,
    EpochMs,
    Message,
    NodeName,
    Part,
    ResourceName,
    StateMs,
)
from schemas.messages.pods import PodRef

DecisionId = Annotated[str, Field(min_length=8, max_length=64)]

#: Whole percent as policies and annotations have it, which Kubernetes reads as 64 bits.
_Threshold = Annotated[int, Field(ge=INT64_MIN, le=INT64_MAX)]

#: How many of the next best nodes a decision names.
RUNNERS_UP_MAX = 2


class AsOf(Part):
    """The state that a decision was computed from."""

    partition: Count
    """Partition of the cluster's inputs."""
    offsets: Counts
    """Offset applied last of each input topic."""
    policy_digest: str
    """Digest of the policy in force; "default" where none was applied."""


class ReasonCount(Part):
    """How many nodes were refused for one reason."""

    reason: str
    """The reason, as Kubernetes would word it."""
    nodes: Count
    """How many nodes."""


class ScoreTerm(Part):
    """What one score plugin gave a node."""

    plugin: str
    """Name of the score plugin."""
    score: Annotated[int, Field(ge=0, le=100)]
    """What it gave the node."""
    weight: Count
    """What its score is multiplied by in the total."""


class NodeScore(Part):
    """A node and its weighted total."""

    node: NodeName
    total: Annotated[int, Field(ge=-INT64_MAX, le=INT64_MAX)]
    """Sum of score times weight."""
    terms: Annotated[tuple[ScoreTerm, ...], Field(fail_fast=True)] = ()
    """What each plugin gave, in the order of the policy."""


class LoadThresholds(Part):
    """Thresholds of the load-aware filter that were in force, where they move; percent per
    resource.

    A node's annotation goes before them."""

    usage: Annotated[dict[ResourceName, _Threshold], Field(max_length=64, fail_fast=True)] = Field(
        default_factory=dict
    )
    """Of the whole node's usage."""
    prod_usage: Annotated[dict[ResourceName, _Threshold], Field(max_length=64, fail_fast=True)] = (
        Field(default_factory=dict)
    )
    """Of the usage of its prod pods."""
    aggregated_usage: Annotated[
        dict[ResourceName, _Threshold], Field(max_length=64, fail_fast=True)
    ] = Field(default_factory=dict)
    """Of a percentile of its usage."""
    source: str = ""
    """How they came about: configured, by which window, or by which mean and deviation."""


class PlacementDecision(Message):
    """What was decided for one pod (key: cluster)."""

    decision_id: DecisionId
    """Id of the decision, derived from its inputs: the same decision has the same id."""
    cluster: ClusterName
    pod: PodRef
    """The pod that it is about."""
    outcome: Literal["placed", "waiting", "refused", "withdrawn", "expired"]
    """placed: `node` is reserved until `expires_at_ms`. waiting: no node now, it will be tried
    again. refused: it is not tried again, since it can never be placed as it is, or too many
    requests wait already. withdrawn: the request was taken back. expired: the reservation ran out
    unconfirmed and the pod waits for a node again."""
    node: NodeName | None = None
    """The node chosen; none: there is none."""
    decided_at_ms: StateMs
    """The log's time at which it was decided; 0: before its clock ticked first."""
    expires_at_ms: EpochMs | None = None
    """The reservation holds until then, and the binding must be made before."""
    attempt: Count = 0
    """How many attempts have failed before."""
    nodes: Count = 0
    """How many nodes there were."""
    stale_nodes: Count = 0
    """How many of them had no fresh metric."""
    refused_by: Counts = Field(default_factory=dict)
    """Nodes refused per filter plugin; a node counts for the first filter that refuses it. Where
    filters have given way, those that all of them refuse: `message` says so."""
    reasons: Annotated[tuple[ReasonCount, ...], Field(fail_fast=True)] = ()
    """Reasons of the refusals, most nodes first; only where no node was found."""
    message: str = ""
    """The outcome in a sentence."""
    rejected: str | None = None
    """Why the kubelet rejected the pod after its binding, as "OutOfcpu"; none: it did not."""
    winner: NodeScore | None = None
    """The score of the node chosen."""
    runners_up: Annotated[tuple[NodeScore, ...], Field(fail_fast=True)] = ()
    """The next best nodes, best first."""
    retry_after_ms: DurationMs | None = None
    """How long it is not tried again, unless a node changes in a way that may help it."""
    load_thresholds: LoadThresholds | None = None
    """Load thresholds in force, where the policy has such that move."""
    judged_by_estimates: Counts | None = None
    """How many nodes were judged by the estimates of their pods, by the statistic that the policy
    asks for and their metrics do not record, as "p95 over 15m"; none: no node."""
    judged_by_other_statistics: Counts | None = None
    """How many nodes were judged by another statistic, by both, as "p95 over 30m: p95 over 5m" or
    "p95 over 30m: mean"; none: no node."""
    unknown_usage: Counts | None = None
    """How many nodes have a metric that lacks a resource, by resource; they count for it as nodes
    without a metric; none: no node."""
    as_of: AsOf
    """The state that it was computed from."""

    @property
    def waits(self) -> bool:
        """The pod waits for a node from then on."""
        return self.outcome in ("waiting", "expired")
