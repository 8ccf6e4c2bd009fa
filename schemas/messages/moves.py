"""What is remembered of moves, and `status`: what became of each move.

A move is the eviction of a pod and the coming of its replacement, which is another pod of the same
owner. The rows serve placement and rebalancing alike; each is small, bounded, and forgotten with
its reason.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import (
    ClusterName,
    Count,
    EpochMs,
    Message,
    NodeName,
    Part,
    StateMs,
)
from schemas.messages.decisions import AsOf, DecisionId
from schemas.messages.pods import PodRef

#: uid of the controller of a pod, else the pod's namespace/name.
OwnerKey = Annotated[str, Field(min_length=1, max_length=1_200)]
PoolName = Annotated[str, Field(max_length=253)]
#: What is watched: everything on the node, or its prod pods alone.
Phase = Literal["node", "prod"]

#: Most moves of one owner that are remembered.
HISTORY_MAX = 32


class RecentMove(Part):
    """One pod of the owner left a node."""

    source: NodeName
    """The node that it left."""
    left_at_ms: StateMs
    """When the command to leave was given."""
    why: Annotated[str, Field(max_length=500)] = ""
    """Why it left."""
    target: NodeName | None = None
    """The node on which the replacement arrived; none: it has not yet."""
    arrived_at_ms: StateMs | None = None
    """When it arrived."""
    dry_run: bool = False
    """The pod was only said to leave."""


class RecentMovesRow(Message):
    """Kind `recent_moves`: the moves of one owner's pods, and whether the owner is frozen."""

    cluster: ClusterName
    owner: OwnerKey
    """uid of the pods' controller, else namespace/name of the pod."""
    moves: Annotated[tuple[RecentMove, ...], Field(max_length=HISTORY_MAX, fail_fast=True)] = ()
    """The newest moves, oldest first."""
    touched_at_ms: StateMs
    """When something was noted last: of too many owners the one touched longest ago is forgotten."""
    frozen_until_ms: StateMs = 0
    """Its pods are not moved before; 0: it was never frozen."""
    frozen_at_ms: StateMs = 0
    """When it was frozen last; 0: it was not."""
    freezes: Count = 0
    """How many times in a row it was frozen."""
    frozen_for: Annotated[str, Field(max_length=500)] = ""
    """Why it was frozen last, with numbers."""
    frozen_by: Literal["", "circle", "count"] = ""
    """Which rule froze it last."""
    frozen_dry: bool = False
    """Moves that were only said to happen had a part in it."""


class CoolingNodeRow(Message):
    """Kind `cooling_nodes`: a node that remembered moves left, and how long ago it was hot."""

    cluster: ClusterName
    node: NodeName
    hot_at_ms: StateMs
    """When it was hot last."""
    metrics: Count = 0
    """Fresh metrics since then by which it is not hot, as far as they are waited for."""
    metric_at_ms: StateMs = 0
    """Update time of the newest of them; 0: none came."""


class FollowedEvictionRow(Message):
    """Kind `followed_evictions`: an eviction that is followed, and what is known of it so far.

    Hot means above the high thresholds of the pool.
    """

    cluster: ClusterName
    command_id: DecisionId
    """Id of the eviction command."""
    migration_id: DecisionId
    """Id of the migration that the command belongs to."""
    pool: PoolName
    """The pool that the source was in when the move was planned."""
    phase: Phase
    """Whose usage is compared with the thresholds: that of the whole node, or of its prod pods."""
    pod: PodRef
    """The pod evicted."""
    owner: OwnerKey
    """uid of the pod's controller, else namespace/name of the pod."""
    source_node: NodeName
    """The node that the pod left."""
    evicted_at_ms: EpochMs
    """When the pod left."""
    replacement: PodRef | None = None
    """The new pod of the owner; none: none has come."""
    target_node: NodeName | None = None
    """The node on which the replacement arrived; none: none has come."""
    source_hot_before: bool
    """The source was hot when the move was planned."""
    source_hot_after: bool | None = None
    """The source was hot in the newest round since; none: it was not measured."""
    target_hot_after: bool | None = None
    """The target was hot in the newest round since; none: it was not measured."""
    returned: bool | None = None
    """The replacement arrived on the source; none: none has come."""
    moved_again: bool | None = None
    """Rebalancing has evicted the replacement; none: none has come."""


class MoveOutcome(FollowedEvictionRow):
    """`status`: what became of one eviction in the time after it (key: cluster)."""

    kind: Literal["move"] = "move"
    """Says what the record is."""
    ended_at_ms: EpochMs
    """The log's time when the eviction was followed no longer."""
    as_of: AsOf
    """The state that the outcome was computed from."""


#: What moves are counted by in metrics: all of them, and those of which a field of `MoveOutcome` is true.
MOVE_COUNTS = ("all", "source_hot_after", "target_hot_after", "returned", "moved_again")
