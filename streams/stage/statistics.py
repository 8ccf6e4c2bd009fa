"""Statistics of a stage for metrics: counts since the last call, and figures of the present state.

The worker reads both between two batches. They have no effect on decisions.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counts:
    """Counts since the last call of `take_counts`."""

    results: Counter[str] = field(default_factory=Counter)
    """Records by result; each stage defines its results."""
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Refused records by source topic and category."""
    decided: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Decisions by outcome and class of reason."""
    waits_s: Counter[int] = field(default_factory=Counter)
    """Placed pods by whole seconds of log time since their requests."""
    rounds: Counter[str] = field(default_factory=Counter)
    """Rounds of rebalancing by result: moves, hot (hot nodes, no move), calm or stopped."""
    commands: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Eviction commands by cluster, trigger and mode (enforce or observe)."""
    migrations: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Ended migrations by cluster, phase and reason."""
    moves: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Ended moves by cluster and outcome (`MOVE_COUNTS`)."""
    policies: dict[str, str] = field(default_factory=dict)
    """Short descriptions of applied policies, by cluster."""
    clusters: dict[str, None] = field(default_factory=dict)
    """New clusters (an ordered set)."""


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """Figures of one cluster."""

    cluster: str
    nodes: int
    """Nodes in Kubernetes."""
    stale_nodes: int
    """Nodes without a fresh metric."""
    pods: int
    """Pods that take up room on a node."""
    pending_requests: int
    """Requests that wait for a node."""
    hot_nodes: int
    """Nodes above a high threshold, or at risk, in the last round."""
    migrations: int
    """Migrations that have not ended."""
    newest_metric_age_ms: int | None
    """Log time since the newest metric of any node; None: there is no metric, or no log time."""
    nodes_by_estimates: int = 0
    """Nodes with estimates, because their metrics lack a statistic that the policy uses."""
    hot_usage: Mapping[tuple[str, str], float] = field(default_factory=dict, compare=False)
    """Usage of the hottest nodes as a share of capacity, by node and resource.

    Empty from a restart to the next round, so not compared.
    """


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of one partition."""

    now_ms: int | None
    """Log time; None: unknown."""
    nodes: int
    clusters: tuple[ClusterFigures, ...] = ()
    """Clusters by name; empty in the aggregate stage."""
    set_apart: int = 0
    """Clusters whose records are not applied after repeated failures."""
