"""`command-outcomes`: what came of a binding or an eviction, as the binder and the evictor report
it."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import ClusterName, EpochMs, Message, NodeName
from schemas.messages.decisions import DecisionId
from schemas.messages.pods import PodRef


class CommandOutcome(Message):
    """What happened to a command (key: cluster)."""

    command_id: DecisionId
    """Id of the placement decision or of the eviction command."""
    cluster: ClusterName
    command: Literal["bind", "evict"]
    """What was to be done."""
    pod: PodRef
    """The pod that it was about."""
    node: NodeName | None = None
    """The node that it was bound to or evicted from."""
    result: Literal["done", "failed", "refused", "expired", "dry"]
    """done: Kubernetes accepted it. failed: tried, not accepted. refused: a budget or a
    precondition forbids it. expired: its time had run out before it was tried. dry: taken note of,
    not executed."""
    reason: Annotated[str, Field(max_length=2_000)] = ""
    """Why, where it was not done."""
    pod_gone: bool = False
    """The cluster has no pod of this uid any more: there is nothing left to be done for it."""
    happened_at_ms: EpochMs
    """When it was done or given up."""
