"""`eviction-commands`, and `command-outcomes`: results of bindings and evictions."""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from schemas.base.message import (
    INT64_MAX,
    ClusterMessage,
    Count,
    EpochMs,
    NodeName,
    StringMap,
    published,
)
from schemas.messages.decisions import AsOf, DecisionId
from schemas.messages.pods import PodRef

#: Annotation with which a soft eviction asks the pod's owner to move it.
SOFT_EVICTION_ANNOTATION = "scheduling.koordinator.sh/soft-eviction"


class EvictionCommand(ClusterMessage):
    """Evict this pod (key: cluster). The evictor acts once per id and only on this uid."""

    record_time: ClassVar = "decided_at_ms"

    command_id: DecisionId
    """Id, derived from the inputs: the same command has the same id."""
    pod: PodRef
    """The pod to evict."""
    node: NodeName
    """Precondition: the node of the pod."""
    reason: Annotated[str, Field(max_length=2_000)]
    """The pool, the resources above their thresholds, and the excess."""
    dry_run: bool = True
    """True: record the command, but do not evict."""
    policy: Literal["Eviction", "Delete", "SoftEviction"] = "Eviction"
    """Eviction: by the eviction API. Delete: by deletion. SoftEviction: by asking the pod's
    owner."""
    grace_period_s: (
        Annotated[int, Field(ge=0, le=INT64_MAX, json_schema_extra=published(unit="s"))] | None
    ) = None
    """Grace period; none: the pod's own grace period."""
    decided_at_ms: EpochMs
    """Log time of the decision."""
    expires_at_ms: EpochMs
    """The command must not be executed at or after this time."""
    migration_id: DecisionId | None = None
    """The migration of this command; further commands of the migration have the same id."""
    attempt: Count = 0
    """Number of the command within its migration, from 1; 0: no migration."""
    trigger: Literal["rebalance", "request", "drain"] | None = None
    """Cause: a round of rebalancing, a user's request, or the drain of a node."""
    retry_until_ms: EpochMs | None = None
    """Until then loadstream sends another command after a refusal (for example by a disruption
    budget), so the evictor reports a refusal immediately and does not retry."""
    annotations: StringMap = Field(default_factory=dict)
    """Annotations that a SoftEviction adds to the pod."""
    as_of: AsOf
    """The state that the command was computed from."""


class CommandOutcome(ClusterMessage):
    """The result of a command (key: cluster)."""

    record_time: ClassVar = "happened_at_ms"

    command_id: DecisionId
    """Id of the placement decision or of the eviction command."""
    command: Literal["bind", "evict"]
    """The kind of command."""
    pod: PodRef
    """The pod of the command."""
    node: NodeName | None = None
    """The node that the pod was bound to or evicted from."""
    result: Literal["done", "failed", "refused", "expired", "dry"]
    """done: Kubernetes accepted it. failed: Kubernetes did not accept it. refused: a budget or a
    precondition forbids it. expired: it arrived too late and was not tried. dry: recorded, not
    executed."""
    reason: Annotated[str, Field(max_length=2_000)] = ""
    """Why the command was not done."""
    pod_gone: bool = False
    """True: the cluster has no pod with this uid any more."""
    happened_at_ms: EpochMs
    """When the command was done or given up."""
