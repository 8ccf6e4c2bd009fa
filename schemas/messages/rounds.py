"""`status`: what one round of rebalancing saw, what it wanted, and what stopped it.

"Why was nothing evicted?" must have an answer for every round, every hot node and every pod on it:
the first gate that stopped it, in words with numbers. A record is bounded; what it leaves out is
counted.
"""

from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import (
    INT64_MAX,
    ClusterName,
    Count,
    Counts,
    EpochMs,
    Message,
    NodeName,
    Part,
    ResourceAmounts,
    ResourceName,
    StateMs,
    published,
)
from schemas.messages.decisions import AsOf, DecisionId
from schemas.messages.pods import PodRef

#: Hot nodes that one record names over all pools; the hottest first.
HOT_NODES_MAX = 100
#: Pods that a record names for each of them, in the order in which they were looked at.
PODS_PER_NODE_MAX = 20

#: Pools that a record names, in the order in which nodes are given to them.
POOLS_MAX = 256
#: Largest percentage that a record can say; one above 100 % is never exceeded anyway.
PERCENT_MAX = 10_000

#: Watched as a whole, or for its prod pods alone.
Phase = Literal["node", "prod"]
Gate = Annotated[str, Field(max_length=500)]
"""What stopped it first, with numbers; empty: nothing did."""
#: A threshold; one above 100 % is never exceeded.
Percent = Annotated[float, Field(ge=0, le=PERCENT_MAX, json_schema_extra=published(unit="percent"))]
Percents = Annotated[dict[ResourceName, Percent], Field(max_length=64, fail_fast=True)]


class ThresholdsInForce(Part):
    """Percent of a node's capacity per resource, as the round applied them."""

    low: Percents = Field(default_factory=dict)
    """Below all of these a node is lightly loaded."""
    high: Percents = Field(default_factory=dict)
    """Above any of these a node is hot."""
    prod_low: Percents = Field(default_factory=dict)
    """As `low`, of its prod pods alone."""
    prod_high: Percents = Field(default_factory=dict)
    """As `high`, of its prod pods alone."""
    source: Annotated[str, Field(max_length=500)] = ""
    """How they came about: as configured, or by which window, mean and deviation."""


class Reading(Part):
    """One resource of a hot node when the round looked at it first."""

    used: Annotated[int, Field(ge=0, le=INT64_MAX)]
    """Used by the node, or by its prod pods."""
    limit: Annotated[int, Field(ge=0, le=INT64_MAX)]
    """Above this it is hot."""
    capacity: Annotated[int, Field(ge=0, le=INT64_MAX)]
    """What the percentages are of."""


#: What a node costs by the risk that it is overutilized.
Cost = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class MoveCosts(Part):
    """What a move changes by the plan: costs of source and target by the risk of overutilization."""

    source_before: Cost
    """The source with the pod."""
    source_after: Cost
    """The source without it."""
    target_before: Cost
    """The target without the pod."""
    target_after: Cost
    """The target with it."""


class PodVerdict(Part):
    """One pod of a hot node, and how far it came."""

    pod: PodRef
    """The pod."""
    gate: Gate = ""
    """What stopped it first; empty: it leaves."""
    target: NodeName | None = None
    """Where the plan moves it; none: it was stopped, or no target was planned."""
    usage: ResourceAmounts = Field(default_factory=dict)
    """What it uses; empty: not known."""
    migration_id: DecisionId | None = None
    """The migration that was begun for it."""
    costs: MoveCosts | None = None
    """What its move to the target changes; none: it was not compared by risk."""


class HotNode(Part):
    """A node above its high thresholds, or one at risk of overutilization."""

    node: NodeName
    phase: Phase
    """What is above: the whole node, or its prod pods."""
    readings: Annotated[dict[ResourceName, Reading], Field(max_length=64, fail_fast=True)]
    """The resources that are above their limits."""
    abnormal_rounds: Count
    """For how many rounds in a row it has been hot, this one included."""
    gate: Gate = ""
    """What stopped the whole node, or ended its turn; empty: it was relieved."""
    cost: Cost | None = None
    """What it costs by the risk that it is overutilized, before the round's moves; none: thresholds
    make it hot."""
    leaving: Count = 0
    """Pods that leave it."""
    pods: Annotated[
        tuple[PodVerdict, ...], Field(max_length=PODS_PER_NODE_MAX, fail_fast=True)
    ] = ()
    """Its pods in the order in which they were looked at."""
    pods_left_out: Count = 0
    """How many more were looked at."""


class PoolRound(Part):
    """One pool in a round."""

    pool: Annotated[str, Field(max_length=253)]
    """Its name in the policy."""
    nodes: Counts = Field(default_factory=dict)
    """Nodes per class: low, bothLow, prodLow, normal, prodHigh, high, skipped."""
    thresholds: ThresholdsInForce = Field(default_factory=ThresholdsInForce)
    """What was compared with."""
    rounds_needed: Count = 0
    """Rounds in a row for which a node must be hot before pods leave it; 0: not reported."""
    memory: Counts = Field(default_factory=dict)
    """Measured nodes by what their memory counts (`memory_is` of their metrics), where that differs:
    their memory is compared all the same."""
    gate: Gate = ""
    """What stopped the whole pool."""
    wanted: Count = 0
    """Pods that were to leave."""
    leaving: Count = 0
    """Pods for which a migration began."""
    hot: Annotated[tuple[HotNode, ...], Field(max_length=HOT_NODES_MAX, fail_fast=True)] = ()
    """Hot nodes, in the order of their turns."""
    hot_left_out: Count = 0
    """How many more there were."""


class RebalanceRound(Message):
    """`status`: one round of a cluster (key: cluster)."""

    kind: Literal["round"] = "round"
    """Says what the record is."""
    round_id: DecisionId
    """Id of the round, derived from its inputs."""
    cluster: ClusterName
    decided_at_ms: EpochMs
    """The log's time of the round."""
    dry_run: bool
    """Commands that follow from it are marked dry."""
    gate: Gate = ""
    """What stopped the whole round."""
    pools: Annotated[tuple[PoolRound, ...], Field(max_length=POOLS_MAX, fail_fast=True)] = ()
    """The pools, in the order in which nodes are given to them."""
    as_of: AsOf
    """The state that it was computed from."""


class HotspotCounter(Part):
    """Rounds of one node in one pool and phase."""

    pool: Annotated[str, Field(max_length=253)]
    """Name of the pool in the policy; Koordinator's way: of the pool that counted first."""
    pool_index: Count | None = None
    """Koordinator's way: that pool's place among all, from 0, since several may have one name."""
    phase: Literal["node", "prod"]
    """What is watched: everything on the node, or its prod pods alone."""
    consecutive_abnormal: Count = 0
    """Hot rounds since the last calm one."""
    consecutive_normal: Count = 0
    """Calm rounds since the last hot one."""
    abnormal_since_ms: StateMs | None = None
    """Since when the node counts as abnormal; none: it does not."""
    counted_at_ms: StateMs
    """Time of the round counted last; Koordinator's way: of the last hot one."""


class HotspotCounterRow(Message):
    """Kind `hotspot_counters`: for how many rounds one node has been hot; nodes that are calm have
    no row."""

    cluster: ClusterName
    node: NodeName
    counters: Annotated[tuple[HotspotCounter, ...], Field(max_length=512, fail_fast=True)]
    """One for each pool and phase that counts the node."""


_Series = Annotated[tuple[Count, ...], Field(max_length=360, fail_fast=True)]
_Means = Annotated[dict[ResourceName, _Series], Field(max_length=64, fail_fast=True)]


_FilledMap = Annotated[
    dict[ResourceName, Annotated[float, Field(allow_inf_nan=False)]], Field(fail_fast=True)
]


class UsageHistoryRow(Message):
    """Kind `usage_history`: what rounds left behind from which thresholds are worked out."""

    cluster: ClusterName
    means: Annotated[dict[str, _Means], Field(max_length=1_026, fail_fast=True)] = Field(
        default_factory=dict
    )
    """Thousandths of a percent, oldest first, per pool and resource; under "" those of the whole
    cluster.

    Mean usage in the newest rounds."""
    filled: Annotated[tuple[_FilledMap, ...], Field(fail_fast=True)] | None = None
    """Koordinator's way: the threshold maps of the policy as rounds have filled them, each once in
    the order in which the pools have them; none: they are as the policy gives them. The policy's
    size bounds them."""
