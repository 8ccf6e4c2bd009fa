"""What is remembered of moves, and `move-outcomes`: the outcome of each one.

A move is the eviction of a pod and the coming of its replacement, which is another pod of the same
owner. The rows serve placement and rebalancing alike; each is small, bounded, and forgotten with
its reason.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base import (
    INT64_MAX,
    ClusterName,
    Count,
    Counts,
    DurationMs,
    EpochMs,
    Message,
    NodeName,
    Part,
    ResourceAmounts,
    ResourceName,
    StateMs,
)
from schemas.decisions import AsOf, DecisionId
from schemas.pods import PodRef
from schemas.policy.moves import HISTORY_MAX, VERDICTS_MAX

#: uid of the controller of a pod, else the pod's namespace/name.
OwnerKey = Annotated[str, Field(min_length=1, max_length=1_200)]
PoolName = Annotated[str, Field(max_length=253)]
#: What is watched: everything on the node, or its prod pods alone.
Phase = Literal["node", "prod"]
#: Most pods of one node that are kept as unmovable in its row.
UNMOVABLE_PER_NODE_MAX = 256
#: Most nodes that one move is compared with.
PEERS_MAX = 8


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
    """Table `recent_moves`: the moves of one owner's pods, and whether the owner is frozen."""

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
    """Table `cooling_nodes`: a node that remembered moves left, and how long ago it was hot."""

    cluster: ClusterName
    node: NodeName
    hot_at_ms: StateMs
    """When it was hot last."""
    metrics: Count = 0
    """Fresh metrics since then by which it is not hot, as far as they are waited for."""
    metric_at_ms: StateMs = 0
    """Update time of the newest of them; 0: none came."""


class UnmovablePod(Part):
    """A pod that no target could take without becoming hot."""

    pod: PodRef
    """The pod."""
    reason: Annotated[str, Field(max_length=500)]
    """Why, with numbers."""
    usage: ResourceAmounts
    """What it used."""
    room: ResourceAmounts
    """The most room that any one target had, per resource."""
    attempts: Count
    """How many times in a row it was tried in vain."""
    marked_at_ms: StateMs
    """When it was tried last."""
    retry_at_ms: StateMs
    """It is tried again then even if nothing has changed."""


class UnmovablePodsRow(Message):
    """Table `unmovable_pods`: those of one node."""

    cluster: ClusterName
    node: NodeName
    pods: Annotated[
        tuple[UnmovablePod, ...], Field(max_length=UNMOVABLE_PER_NODE_MAX, fail_fast=True)
    ]
    """The pods, in the order of their uids."""


class LoadReading(Part):
    """How a node stood against its high threshold in a round, by the resource nearest to it or
    furthest above."""

    resource: ResourceName
    """The resource."""
    used: Annotated[int, Field(ge=0, le=INT64_MAX)]
    """Used by the node, or by its prod pods."""
    limit: Annotated[int, Field(ge=0, le=INT64_MAX)]
    """The high threshold in force, as an amount."""
    capacity: Annotated[int, Field(ge=0, le=INT64_MAX)]
    """What percentages are of."""
    read_at_ms: StateMs
    """Time of the round."""

    @property
    def over(self) -> bool:
        """The node was above its threshold."""
        return self.used > self.limit


class Comparison(Part):
    """In how many rounds after an eviction its source was hot, beside nodes that were as hot when
    the move was planned and were left alone; pods of other moves are worked out of their usage."""

    rounds: Count = 0
    """Rounds that looked at the source."""
    hot_rounds: Count = 0
    """Those in which it was above its threshold."""
    peer_rounds: Count = 0
    """Looks at the other nodes, one a node and round."""
    peer_hot_rounds: Count = 0
    """Those in which the node was above its threshold."""


class FollowedEvictionRow(Message):
    """Table `followed_evictions`: an eviction whose effect is still being watched."""

    cluster: ClusterName
    command_id: DecisionId
    """Id of the eviction command."""
    migration_id: DecisionId
    """Id of the migration that it belongs to."""
    pool: PoolName
    """The pool by whose thresholds the source was hot."""
    phase: Phase
    """What was watched on the source."""
    pod: PodRef
    """The pod evicted."""
    owner: OwnerKey
    """Whose pod it was."""
    source_node: NodeName
    """The node that it left."""
    dry_run: bool
    """The pod was only said to leave."""
    evicted_at_ms: EpochMs
    """When it left."""
    source: LoadReading | None = None
    """The source when it was last seen to turn hot or cool, or was seen first."""
    cooled_at_ms: StateMs | None = None
    """When the source was first seen below its threshold; none: not yet."""
    replacement: PodRef | None = None
    """The pod that came in its place; none: none has come."""
    target_node: NodeName | None = None
    """The node on which the replacement arrived."""
    arrived_at_ms: StateMs | None = None
    """When the replacement arrived."""
    ready_at_ms: StateMs | None = None
    """When the replacement was ready."""
    target: LoadReading | None = None
    """The target when it was last seen to turn hot or cool, or was seen first."""
    overloaded_at_ms: StateMs | None = None
    """When the target was first seen above its threshold; none: never."""
    bounced: Literal["", "came back", "evicted again"] = ""
    """How the move was undone."""
    peers: Annotated[tuple[NodeName, ...], Field(max_length=PEERS_MAX, fail_fast=True)] = ()
    """Nodes that were as hot as the source when the move was planned: what it is judged against."""
    usage: ResourceAmounts = Field(default_factory=dict)
    """What was measured or expected of the pod then; empty: nothing is known, and nodes that it
    leaves or comes to are not compared with."""
    comparison: Comparison = Field(default_factory=Comparison)
    """What rounds saw of them since, and of the source."""


Verdict = Literal[
    "helped", "bounced", "source hot", "target hot", "not ready", "no difference", "unknown", "dry"
]


class MoveOutcome(Message):
    """Topic `move-outcomes` (key: cluster): the outcome of one eviction, judged after a while."""

    command_id: DecisionId
    """Id of the eviction command."""
    migration_id: DecisionId
    """Id of the migration that it belongs to."""
    cluster: ClusterName
    pool: PoolName
    """The pool by whose thresholds the source was hot."""
    phase: Phase
    """What was watched on the source: everything, or its prod pods alone."""
    pod: PodRef
    """The pod evicted."""
    owner: OwnerKey
    """uid of the pod's controller, else the pod's namespace/name."""
    source_node: NodeName
    """The node that it left."""
    target_node: NodeName | None = None
    """The node on which the replacement arrived; none: none has come."""
    replacement: PodRef | None = None
    """The pod that came in its place."""
    dry_run: bool = True
    """The pod was only said to leave: what is reported is what happened without the move."""
    verdict: Verdict
    """helped: the source was hot in a smaller share of the rounds than nodes that were as hot and
    left alone, the target has not risen above its own threshold, the replacement is ready. bounced:
    the replacement came back to the source or was evicted in turn. source hot, target hot, not
    ready: what failed first, in this order. no difference: neither the source was hot any more nor
    were those nodes. unknown: too little was seen, or there was no node to compare with. dry: not
    executed."""
    message: Annotated[str, Field(max_length=500)]
    """The verdict in a sentence, with numbers."""
    source: LoadReading | None = None
    """The source when it was last seen to turn hot or cool, or was seen first."""
    cooled_after_ms: DurationMs | None = None
    """How long after the eviction the source was first seen below its threshold; none: never."""
    target: LoadReading | None = None
    """The target when it was last seen to turn hot or cool, or was seen first."""
    overloaded_after_ms: DurationMs | None = None
    """How long after the eviction the target was first seen above its threshold; none: never."""
    ready_after_ms: DurationMs | None = None
    """How long after the eviction the replacement was ready; none: it was not."""
    bounced: Literal["", "came back", "evicted again"] = ""
    """How the move was undone; empty: it was not."""
    comparison: Comparison | None = None
    """What the source is compared with."""
    evicted_at_ms: EpochMs
    """When the pod left, or was said to."""
    judged_at_ms: EpochMs
    """The log's time of the verdict."""
    as_of: AsOf
    """The state that it was computed from."""


class PoolVerdictsRow(Message):
    """Table `pool_verdicts`: whether the moves of one pool help, and until when it is held back."""

    cluster: ClusterName
    pool: PoolName
    """Name of the pool."""
    recent: Annotated[tuple[bool, ...], Field(max_length=VERDICTS_MAX, fail_fast=True)] = ()
    """Whether the newest moves helped, oldest first."""
    backoffs: Count = 0
    """How many times in a row it was held back."""
    until_ms: StateMs = 0
    """Nothing is emitted before; 0: it is not held back."""
    held_for: Annotated[str, Field(max_length=500)] = ""
    """Why it was held back last, with numbers."""
    counts: Counts = Field(default_factory=dict)
    """How many verdicts of each kind there were, and how many evictions could not be followed."""
