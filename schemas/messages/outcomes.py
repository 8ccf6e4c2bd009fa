"""`command-outcomes`: results of bindings and evictions, reported by the binder and the evictor."""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import ClusterName, EpochMs, Message, NodeName
from schemas.messages.decisions import DecisionId
from schemas.messages.pods import PodRef


class CommandOutcome(Message):
    """The result of a command (key: cluster)."""

    command_id: DecisionId
    """Id of the placement decision or of the eviction command."""
    cluster: ClusterName
    command: Literal["bind", "evict"]
    """The kind of command."""
    pod: PodRef
    """The pod of the command."""
    node: NodeName | None = None
    """The node that the pod was bound to or evicted from."""
    result: Literal["done", "failed", "refused", "expired", "dry"]
    """done: Kubernetes accepted it.

    failed: Kubernetes did not accept it. refused: a budget or a precondition forbids it. expired:
    it arrived too late and was not tried. dry: recorded, not executed.
    """
    reason: Annotated[str, Field(max_length=2_000)] = ""
    """Why the command was not done."""
    pod_gone: bool = False
    """True: the cluster has no pod with this uid any more."""
    happened_at_ms: EpochMs
    """When the command was done or given up."""
