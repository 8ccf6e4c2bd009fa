"""`scheduling-requests`, and `placement-decisions`: the node of a pod, or why the pod has none.

A decision explains itself. It contains the state it was computed from (`as_of`), the number of nodes
refused by each filter with the reasons, the scores of the chosen node and the runners-up, and the
number of stale nodes.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from schemas.base.message import (
    INT64_MAX,
    INT64_MIN,
    ByResource,
    ClusterMessage,
    Count,
    Counts,
    DurationMs,
    Entries,
    EpochMs,
    NodeName,
    Part,
    StateMs,
)
from schemas.messages.pods import Pod, PodRef


class SchedulingRequest(ClusterMessage):
    """A pod needs a node (key: cluster). A second request for the same uid replaces the first."""

    record_time: ClassVar = "requested_at_ms"

    pod: Pod
    """The pod to place."""
    requested_at_ms: EpochMs
    """When the request was made."""
    withdrawn: bool = False
    """True: the pod no longer needs a node (it was deleted, or bound by another scheduler)."""


DecisionId = Annotated[str, Field(min_length=8, max_length=64)]

#: Whole percent in policies and annotations; Kubernetes accepts any 64-bit value.
_Thresholds = ByResource[Annotated[int, Field(ge=INT64_MIN, le=INT64_MAX)]]

#: Number of next best nodes in a decision.
RUNNERS_UP_MAX = 2


class AsOf(Part):
    """The state that a decision was computed from."""

    partition: Count
    """Partition of the cluster's inputs."""
    offsets: Counts
    """Offset of the last applied record of each input topic."""
    policy_digest: str
    """Digest of the policy in force; "default" if no policy was applied."""


class ReasonCount(Part):
    """How many nodes were refused for one reason."""

    reason: str
    """The reason, in the words of Kubernetes."""
    nodes: Count
    """Number of nodes."""


class ScoreTerm(Part):
    """The score of one plugin for a node."""

    plugin: str
    """Name of the score plugin."""
    score: Annotated[int, Field(ge=0, le=100)]
    """Score of the node."""
    weight: Count
    """Factor of the score in the total."""


class NodeScore(Part):
    """A node and its weighted total."""

    node: NodeName
    total: Annotated[int, Field(ge=-INT64_MAX, le=INT64_MAX)]
    """Sum of score times weight."""
    terms: Entries[ScoreTerm] = ()
    """Scores of the plugins, in the order of the policy."""


class LoadThresholds(Part):
    """Thresholds of the load-aware filter in force, in percent per resource; only for policies with
    moving thresholds. A node's annotation takes precedence."""

    usage: _Thresholds = Field(default_factory=dict)
    """Thresholds of the node's usage."""
    prod_usage: _Thresholds = Field(default_factory=dict)
    """Thresholds of the usage of prod pods."""
    aggregated_usage: _Thresholds = Field(default_factory=dict)
    """Thresholds of a percentile of the node's usage."""
    source: str = ""
    """Origin of the thresholds: configured, a window, or mean and deviation."""


class PlacementDecision(ClusterMessage):
    """The decision for one pod (key: cluster)."""

    record_time: ClassVar = "decided_at_ms"

    decision_id: DecisionId
    """Id, derived from the inputs: the same decision has the same id."""
    pod: PodRef
    """The pod of the decision."""
    outcome: Literal["placed", "waiting", "refused", "withdrawn", "expired"]
    """placed: `node` is reserved until `expires_at_ms`. waiting: no node now; the request is
    retried. refused: the request is not retried, because the pod can never be placed as it is, or
    because too many requests wait. withdrawn: the request was withdrawn. expired: the reservation
    expired without confirmation; the pod waits again."""
    node: NodeName | None = None
    """The chosen node, if any."""
    decided_at_ms: StateMs
    """Log time of the decision; 0: before the first clock tick."""
    expires_at_ms: EpochMs | None = None
    """End of the reservation; the pod must be bound before."""
    attempt: Count = 0
    """Number of failed attempts before this attempt."""
    nodes: Count = 0
    """Number of nodes in the cluster."""
    stale_nodes: Count = 0
    """Number of nodes without a fresh metric."""
    refused_by: Counts = Field(default_factory=dict)
    """Number of refused nodes per filter plugin; a node counts for the first filter that refuses
    it. If filters were relaxed (see `message`), counts the nodes that are refused even then."""
    reasons: Entries[ReasonCount] = ()
    """Reasons of the refusals, most nodes first; only if no node was found."""
    message: str = ""
    """The outcome in a sentence."""
    rejected: str | None = None
    """Why the kubelet rejected the bound pod, such as "OutOfcpu"; none: no rejection is known."""
    winner: NodeScore | None = None
    """Score of the chosen node."""
    runners_up: Entries[NodeScore] = ()
    """The next best nodes, best first."""
    retry_after_ms: DurationMs | None = None
    """Time until the next attempt, unless a node changes in a way that may help the pod."""
    load_thresholds: LoadThresholds | None = None
    """Load thresholds in force, if the policy has moving thresholds."""
    judged_by_estimates: Counts | None = None
    """Number of nodes whose metrics lack the statistic of the policy, so that the estimates of
    their pods were used; by statistic, such as "p95 over 15m"; none: no node."""
    judged_by_other_statistics: Counts | None = None
    """Number of nodes for which another statistic was used, by the policy's statistic and the used
    statistic, such as "p95 over 30m: p95 over 5m" or "p95 over 30m: mean"; none: no node."""
    unknown_usage: Counts | None = None
    """Number of nodes whose metric lacks a resource, by resource. For this resource they count as
    nodes without a metric. None: no node."""
    as_of: AsOf
    """The state that the decision was computed from."""

    @property
    def waits(self) -> bool:
        """Whether the pod waits for a node after this decision."""
        return self.outcome in ("waiting", "expired")
