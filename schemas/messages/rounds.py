"""`status`: the result of one round of rebalancing, its plans, and the gates that stopped them.

A record answers "Why was nothing evicted?" for the round, for every hot node and for every pod on
it: it names the first gate that stopped the eviction, in a sentence with numbers. Records are limited
in size; omitted entries are counted.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field

from schemas.base.message import (
    INT64_MAX,
    ByResource,
    ClusterMessage,
    Count,
    Counts,
    Entries,
    EpochMs,
    NodeName,
    Part,
    ResourceAmounts,
    ResourceName,
    StateMs,
    published,
)
from schemas.messages.decisions import AsOf, DecisionId
from schemas.messages.pods import PodRef

#: Most hot nodes in a record, over all pools; the hottest first.
HOT_NODES_MAX = 100
#: Most pods per hot node, in the order in which they were considered.
PODS_PER_NODE_MAX = 20

#: Most pools in a record, in the order in which nodes are assigned to them.
POOLS_MAX = 256
#: Largest percentage in a record; percentages above 100 % cannot be exceeded.
PERCENT_MAX = 10_000

#: Usage that is compared: of the whole node, or of its prod pods.
Phase = Literal["node", "prod"]
Gate = Annotated[str, Field(max_length=500)]
"""The first gate that stopped an eviction, with numbers; empty: nothing stopped it."""
#: A threshold.
Percent = Annotated[float, Field(ge=0, le=PERCENT_MAX, json_schema_extra=published(unit="percent"))]
Percents = ByResource[Percent]


class ThresholdsInForce(Part):
    """Thresholds of the round, in percent of a node's capacity per resource."""

    low: Percents = Field(default_factory=dict)
    """A node below all of these is lightly loaded."""
    high: Percents = Field(default_factory=dict)
    """A node above any of these is hot."""
    prod_low: Percents = Field(default_factory=dict)
    """Like `low`, for prod pods."""
    prod_high: Percents = Field(default_factory=dict)
    """Like `high`, for prod pods."""
    source: Annotated[str, Field(max_length=500)] = ""
    """Origin of the thresholds: configured, a window, or mean and deviation."""


class Reading(Part):
    """Usage of one resource of a hot node at the start of the round."""

    used: Annotated[int, Field(ge=0, le=INT64_MAX)]
    """Usage of the node, or of its prod pods."""
    limit: Annotated[int, Field(ge=0, le=INT64_MAX)]
    """The node is hot above this amount."""
    capacity: Annotated[int, Field(ge=0, le=INT64_MAX)]
    """The amount that percentages refer to."""


#: Cost of a node: the risk that it is overutilized.
Cost = Annotated[float, Field(ge=0, allow_inf_nan=False)]


class MoveCosts(Part):
    """Costs of source and target (risk of overutilization) before and after a planned move."""

    source_before: Cost
    """Source with the pod."""
    source_after: Cost
    """Source without the pod."""
    target_before: Cost
    """Target without the pod."""
    target_after: Cost
    """Target with the pod."""


class PodVerdict(Part):
    """One pod of a hot node, and whether it is evicted."""

    pod: PodRef
    """The pod."""
    gate: Gate = ""
    """The first gate that stopped the eviction; empty: the pod is evicted."""
    target: NodeName | None = None
    """Planned target; none: the eviction was stopped, or no target was planned."""
    usage: ResourceAmounts = Field(default_factory=dict)
    """Usage of the pod; empty: unknown."""
    migration_id: DecisionId | None = None
    """Id of the pod's migration."""
    costs: MoveCosts | None = None
    """Costs of the planned move; none: the pod was not compared by risk."""


class HotNode(Part):
    """A node above its high thresholds, or at risk of overutilization."""

    node: NodeName
    phase: Phase
    """What is too hot: the whole node, or its prod pods."""
    readings: ByResource[Reading]
    """The resources above their limits."""
    abnormal_rounds: Count
    """Number of consecutive rounds in which the node was hot, including this one."""
    gate: Gate = ""
    """The gate that stopped the whole node, or that stopped further pods from leaving it; empty: no
    gate."""
    cost: Cost | None = None
    """Cost of the node (risk of overutilization) before the moves of this round; none: the node is
    hot by thresholds."""
    leaving: Count = 0
    """Number of pods that leave the node."""
    pods: Annotated[Entries[PodVerdict], Field(max_length=PODS_PER_NODE_MAX)] = ()
    """Pods of the node in the order in which they were considered."""
    pods_left_out: Count = 0
    """Number of further pods that were considered."""


class PoolRound(Part):
    """The result of a round in one pool."""

    pool: Annotated[str, Field(max_length=253)]
    """Name of the pool in the policy."""
    nodes: Counts = Field(default_factory=dict)
    """Number of nodes per class: low, bothLow, prodLow, normal, prodHigh, high, skipped."""
    thresholds: ThresholdsInForce = Field(default_factory=ThresholdsInForce)
    """Thresholds in force."""
    rounds_needed: Count = 0
    """Number of consecutive hot rounds before pods leave a node; 0: not reported."""
    memory: Counts = Field(default_factory=dict)
    """Number of measured nodes by memory definition (`memory_is` of their metrics), if definitions
    differ. Their memory is compared nevertheless."""
    gate: Gate = ""
    """The gate that stopped the whole pool."""
    wanted: Count = 0
    """Number of pods that should leave."""
    leaving: Count = 0
    """Number of pods whose migration began."""
    hot: Annotated[Entries[HotNode], Field(max_length=HOT_NODES_MAX)] = ()
    """Hot nodes in the order in which they were handled."""
    hot_left_out: Count = 0
    """Number of further hot nodes."""


class RebalanceRound(ClusterMessage):
    """`status`: one round of rebalancing in a cluster (key: cluster)."""

    record_time: ClassVar = "decided_at_ms"

    kind: Literal["round"] = "round"
    """Kind of the record."""
    round_id: DecisionId
    """Id, derived from the inputs."""
    decided_at_ms: EpochMs
    """Log time of the round."""
    dry_run: bool
    """True: the commands of this round are marked dry."""
    gate: Gate = ""
    """The gate that stopped the whole round."""
    pools: Annotated[Entries[PoolRound], Field(max_length=POOLS_MAX)] = ()
    """The pools in the order in which nodes are assigned to them."""
    as_of: AsOf
    """The state that the round was computed from."""


class HotspotCounter(Part):
    """Number of hot and calm rounds of one node in one pool and phase."""

    pool: Annotated[str, Field(max_length=253)]
    """Name of the pool in the policy; with `compat: koordinator`, of the first pool that counted.
    """
    pool_index: Count | None = None
    """With `compat: koordinator`: index of that pool, because pools can share a name."""
    phase: Phase
    """Usage that is compared: of the whole node, or of its prod pods."""
    consecutive_abnormal: Count = 0
    """Hot rounds since the last calm round."""
    consecutive_normal: Count = 0
    """Calm rounds since the last hot round."""
    abnormal_since_ms: StateMs | None = None
    """Since when the node counts as abnormal; none: it counts as normal."""
    counted_at_ms: StateMs
    """Time of the last counted round; with `compat: koordinator`, of the last hot round."""


class HotspotCounterRow(ClusterMessage):
    """Kind `hotspot_counters`: hot rounds of one node; calm nodes have no row."""

    node: NodeName
    counters: Annotated[Entries[HotspotCounter], Field(max_length=512)]
    """One counter per pool and phase."""


_FilledMap = Annotated[
    dict[ResourceName, Annotated[float, Field(allow_inf_nan=False)]], Field(fail_fast=True)
]


class ThresholdMapsRow(ClusterMessage):
    """Kind `threshold_maps`: threshold maps to which earlier rounds have added missing resources, as
    Koordinator does (only with `compat: koordinator`)."""

    maps: Entries[_FilledMap]
    """The maps of all pools, in the order of the pools. A map that several pools share is listed once."""
