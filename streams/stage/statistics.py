"""What the worker may see of a stage: plain values, which it turns into metrics.

Counts say what a stage has done since it was asked last, figures what it holds now. Both are read
between two batches, cost little, and change nothing in what is decided.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Counts:
    """What a stage did since it was asked last."""

    results: Counter[str] = field(default_factory=Counter)
    """Records by what they came to; the words are the stage's own and few."""
    refused: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Dead letters by source topic and category, however many records a letter takes."""
    decided: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Decisions by outcome and class of reason."""
    waits_s: Counter[int] = field(default_factory=Counter)
    """Pods that were given a node, by the whole seconds of log time since they asked for one."""
    rounds: Counter[str] = field(default_factory=Counter)
    """Rounds of rebalancing by what they came to: moves, hot (nothing left), calm or stopped."""
    commands: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Eviction commands by cluster, by who wants them, and by mode: enforce or observe."""
    migrations: Counter[tuple[str, str, str]] = field(default_factory=Counter)
    """Migrations that have ended, by cluster, phase and reason."""
    moves: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Followed evictions by cluster and outcome (`MOVE_COUNTS`)."""
    policies: dict[str, str] = field(default_factory=dict)
    """Policies that were applied, by cluster, each in a few words."""
    clusters: dict[str, None] = field(default_factory=dict)
    """Clusters that are there since: of those nothing may have been counted yet."""


@dataclass(frozen=True, slots=True)
class ClusterFigures:
    """One cluster as a stage holds it."""

    cluster: str
    nodes: int
    """Nodes that Kubernetes has named."""
    stale_nodes: int
    """How many of them have no fresh metric."""
    pods: int
    """Pods that take room."""
    pending_requests: int
    """Requests that wait for a node."""
    hot_nodes: int
    """Nodes above a high threshold, or at risk, in the last round."""
    migrations: int
    """Migrations that wait or are under way."""
    newest_metric_age_ms: int | None
    """Log time since the newest sample of any node's metric; none: there is no metric, or no time."""
    nodes_by_estimates: int = 0
    """Nodes judged by estimates, since their metrics lack a statistic that the policy asks for."""
    hot_usage: Mapping[tuple[str, str], float] = field(default_factory=dict)
    """Usage of the hottest nodes as a share of capacity, by node and resource."""


@dataclass(frozen=True, slots=True)
class Figures:
    """One partition as a stage holds it."""

    now_ms: int | None
    """The stage's time: what its input says, not a wall clock. None: not known yet."""
    nodes: int
    clusters: tuple[ClusterFigures, ...] = ()
    """By name; only a stage that holds whole clusters names them."""
    set_apart: int = 0
    """Clusters whose records are not applied after a defect."""
