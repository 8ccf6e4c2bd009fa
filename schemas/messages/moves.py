"""Memory of moves (rows), and `status`: the outcome of each move.

A move is the eviction of a pod and the arrival of its replacement, another pod of the same owner.
Placement and rebalancing both use the rows. The rows are small, limited in number, and forgotten when
they no longer matter.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from schemas.base.message import ClusterMessage, Count, Entries, EpochMs, NodeName, Part, StateMs
from schemas.messages.decisions import AsOf, DecisionId
from schemas.messages.pods import PodRef

#: uid of the controller of a pod, else the pod's namespace/name.
OwnerKey = Annotated[str, Field(min_length=1, max_length=1_200)]
PoolName = Annotated[str, Field(max_length=253)]
#: Usage that is compared with thresholds: of the whole node, or of its prod pods.
Phase = Literal["node", "prod"]

#: Most remembered moves per owner.
HISTORY_MAX = 32


class RecentMove(Part):
    """One move of a pod of the owner."""

    source: NodeName
    """The node that the pod left."""
    left_at_ms: StateMs
    """When the pod's eviction was decided."""
    why: Annotated[str, Field(max_length=500)] = ""
    """Reason of the move."""
    target: NodeName | None = None
    """The node of the replacement; none: it has not arrived."""
    arrived_at_ms: StateMs | None = None
    """When it arrived."""
    dry_run: bool = False
    """True: the pod was not evicted."""


class RecentMovesRow(ClusterMessage):
    """Kind `recent_moves`: the moves of one owner's pods, and whether the owner is frozen."""

    owner: OwnerKey
    """uid of the pods' controller, else namespace/name of the pod."""
    moves: Annotated[Entries[RecentMove], Field(max_length=HISTORY_MAX)] = ()
    """The newest moves, oldest first."""
    touched_at_ms: StateMs
    """Time of the last change. With too many owners, the owner with the oldest change is
    forgotten."""
    frozen_until_ms: StateMs = 0
    """Its pods are not moved before this time; 0: it was never frozen."""
    frozen_at_ms: StateMs = 0
    """When it was last frozen; 0: never."""
    freezes: Count = 0
    """Number of consecutive freezes."""
    frozen_for: Annotated[str, Field(max_length=500)] = ""
    """Reason of the last freeze, with numbers."""
    frozen_by: Literal["", "circle", "count"] = ""
    """Rule that caused the last freeze."""
    frozen_dry: bool = False
    """True: dry moves contributed to the freeze."""


class CoolingNodeRow(ClusterMessage):
    """Kind `cooling_nodes`: a source of remembered moves that was hot recently."""

    node: NodeName
    hot_at_ms: StateMs
    """When it was last hot."""
    metrics: Count = 0
    """Number of fresh metrics since then that do not show it as hot, up to the number required."""
    metric_at_ms: StateMs = 0
    """Update time of the newest of these metrics; 0: none."""


class FollowedEvictionRow(ClusterMessage):
    """Kind `followed_evictions`: an eviction whose outcome is observed.

    Hot means above the high thresholds of the pool.
    """

    command_id: DecisionId
    """Id of the eviction command."""
    migration_id: DecisionId
    """Id of the command's migration."""
    pool: PoolName
    """The pool of the source when the move was planned."""
    phase: Phase
    """Usage that is compared with the thresholds: of the whole node, or of its prod pods."""
    pod: PodRef
    """The evicted pod."""
    owner: OwnerKey
    """uid of the pod's controller, else namespace/name of the pod."""
    source_node: NodeName
    """The node that the pod left."""
    evicted_at_ms: EpochMs
    """When the pod left."""
    replacement: PodRef | None = None
    """The replacement; none: not created yet."""
    target_node: NodeName | None = None
    """The node of the replacement; none: it has not arrived."""
    source_hot_before: bool
    """The source was hot when the move was planned."""
    source_hot_after: bool | None = None
    """The source was hot in the newest round since; none: not measured."""
    target_hot_after: bool | None = None
    """The target was hot in the newest round since; none: not measured."""
    returned: bool | None = None
    """The replacement arrived on the source; none: it has not arrived."""
    moved_again: bool | None = None
    """Rebalancing has evicted the replacement; none: it has not arrived."""


class MoveOutcome(FollowedEvictionRow):
    """`status`: the outcome of one eviction (key: cluster)."""

    record_time: ClassVar = "ended_at_ms"

    kind: Literal["move"] = "move"
    """Kind of the record."""
    ended_at_ms: EpochMs
    """Log time at which observation ended."""
    as_of: AsOf
    """The state that the outcome was computed from."""


#: Counters of moves in metrics: all moves, and those for which a field of `MoveOutcome` is true.
MOVE_COUNTS = ("all", "source_hot_after", "target_hot_after", "returned", "moved_again")
