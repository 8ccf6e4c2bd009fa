"""`eviction-commands`: a pod to evict, why, under what conditions, until when."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import (
    INT64_MAX,
    ClusterName,
    Count,
    EpochMs,
    Message,
    NodeName,
    Part,
    StringMap,
    published,
)
from schemas.messages.decisions import AsOf, DecisionId
from schemas.messages.pods import PodRef

#: Annotation by which a soft eviction asks the owner of a pod to move it.
SOFT_EVICTION_ANNOTATION = "scheduling.koordinator.sh/soft-eviction"


class DeleteOptions(Part):
    """What of metav1.DeleteOptions an eviction or deletion carries, beside the grace period."""

    propagation_policy: Literal["Orphan", "Background", "Foreground"] | None = None
    """Whether and how what the pod owns goes with it."""
    orphan_dependents: bool | None = None
    """The same in the older form."""
    resource_version: Annotated[str, Field(max_length=128)] | None = None
    """Precondition: the pod still has this resourceVersion."""
    server_dry_run: bool = False
    """dryRun: [All]: Kubernetes checks everything and keeps the pod."""
    ignore_store_read_error: bool | None = None
    """ignoreStoreReadErrorWithClusterBreakingPotential."""


class EvictionCommand(Message):
    """Evict this pod (key: cluster). The evictor acts once per id and only on this uid."""

    command_id: DecisionId
    """Id of the command, derived from its inputs: the same command has the same id."""
    cluster: ClusterName
    pod: PodRef
    """The pod to evict."""
    node: NodeName
    """The node that the pod must still be on."""
    reason: Annotated[str, Field(max_length=2_000)]
    """Why: the pool, the resources over their thresholds, by how much."""
    dry_run: bool = True
    """True: take note, do not act."""
    policy: Literal["Eviction", "Delete", "SoftEviction"] = "Eviction"
    """How: through the eviction API, by deletion, or by asking the pod's owner."""
    grace_period_s: (
        Annotated[int, Field(ge=0, le=INT64_MAX, json_schema_extra=published(unit="s"))] | None
    ) = None
    """Time that the pod gets to end; none: its own."""
    decided_at_ms: EpochMs
    """The log's time at which it was decided."""
    expires_at_ms: EpochMs
    """Not to be carried out at this time or later."""
    migration_id: DecisionId | None = None
    """The migration that it belongs to; its further commands carry the same."""
    attempt: Count = 0
    """Which command of the migration it is, from 1; 0: it belongs to none."""
    trigger: Literal["rebalance", "request", "drain"] | None = None
    """Who wants it: a round of rebalancing, a user's request, or the drain of a node."""
    retry_until_ms: EpochMs | None = None
    """Until then a refusal (by a disruption budget, say) is followed by another command, so the
    evictor reports it at once instead of trying again."""
    delete_options: DeleteOptions | None = None
    """Options of the eviction or deletion; none: only the uid as precondition."""
    annotations: StringMap = Field(default_factory=dict)
    """Of SoftEviction: annotations that the pod is given instead of being evicted."""
    as_of: AsOf
    """The state that it was computed from."""
