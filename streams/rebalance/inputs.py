"""What a round is given besides the policy, and which pods and nodes it looks at."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from schemas.policy import LowNodeLoadArgs, Policy
from schemas.policy.selectors import LabelSelector
from streams.pods.held import Held
from streams.rebalance.candidates import Rules
from streams.rebalance.columns import Columns
from streams.stage.arrays import BoolArray
from streams.stage.budget import Budget


@dataclass(frozen=True, slots=True)
class RoundInput:
    """State, time, and the rules to ask."""

    columns: Columns
    now_ms: int
    rules: Rules
    budget: Budget
    """How many pods may still be checked."""
    reluctant_last: bool = False
    """Pods that prefer no eviction come after all others of their node (noEvictionPolicy:
    Preferred)."""
    paused: bool = False
    """Nodes are only looked at, for thresholds that follow the recent past."""


class PodFilter:
    """Which pods a policy allows to be moved at all: namespaces and pod selectors."""

    def __init__(self, args: LowNodeLoadArgs) -> None:
        self._namespaces = args.evictable_namespaces
        self._selectors: tuple[LabelSelector, ...] = tuple(
            each.selector for each in args.pod_selectors if each.selector is not None
        )

        self.open = self._namespaces is None and not self._selectors
        """It allows every pod."""

    def __call__(self, held: Held) -> tuple[str, str] | None:
        """Gate and reason that keep a pod; None: it may be moved."""
        pod = held.pod
        if self._namespaces is not None and not self._namespaces.admits(pod.namespace):
            return "namespaces", f"namespace {pod.namespace} is not among the evictable ones"
        if self._selectors and not any(each.matches(pod.labels) for each in self._selectors):
            return "selectors", "no pod selector of the policy matches its labels"
        return None


def selectors_of(policy: Policy) -> list[LabelSelector | None]:
    """The node selectors of all pools, in their order."""
    return [pool.node_selector for pool in policy.rebalance.pools(policy.compat)]


def measured(
    columns: Columns, args: LowNodeLoadArgs, now_ms: int, resources: Collection[str] = ()
) -> BoolArray:
    """Nodes whose metric is young enough and says something of all of these resources, shape
    (nodes,)."""
    fresh: BoolArray = (columns.updated_ms >= 0) & (
        now_ms - columns.updated_ms < args.node_metric_expiration_seconds * 1_000
    )
    which = [columns.universe.index[name] for name in resources]
    return fresh & columns.known[which].all(axis=0)


def find_judgeable(columns: Columns, resources: Collection[str]) -> BoolArray:
    """Nodes of which one of these resources is known, shape (nodes,); by our rules it must also have
    some of it. The number of pods is no figure of a metric."""
    which = [columns.universe.index[name] for name in resources if name != "pods"]
    if not which:
        return np.ones(len(columns.nodes), dtype=np.bool_)
    known: BoolArray = columns.known[which]
    if columns.universe.differences.unknown_without_capacity:
        known &= columns.capacity[which] > 0
    return np.asarray(known.any(axis=0))


def fresh_metric(resources: Collection[str], link: str = "and") -> str:
    """What a round needs of a node to judge it."""
    named = [name for name in resources if name != "pods"]
    return f"a fresh metric with {f' {link} '.join(named)}" if named else "a fresh metric"
