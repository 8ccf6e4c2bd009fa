"""`eviction-commands`: a pod to evict, why, under what conditions, until when."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import INT64_MAX, ClusterName, EpochMs, Message, NodeName, published
from schemas.decisions import AsOf, DecisionId
from schemas.pods import PodRef


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
    as_of: AsOf
    """The state that it was computed from."""
