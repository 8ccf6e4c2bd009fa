"""Inputs of a round, and filters for the pods and nodes that it includes."""

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from schemas.policy import LowNodeLoadArgs
from schemas.policy.selectors import LabelSelector
from streams.placement.placer import Exclusions
from streams.pods.held_pod import HeldPod
from streams.rebalance.candidates import Gate, RoundRules
from streams.rebalance.columns import Columns
from streams.stage.arrays import BoolArray
from streams.stage.budget import Budget


@dataclass(frozen=True, slots=True)
class RoundInput:
    columns: Columns
    now_ms: int
    rules: RoundRules
    exclusions: Exclusions
    """Nodes that pods must stay away from."""
    budget: Budget
    """Number of pods that may be checked."""
    no_eviction_last: bool
    """Whether pods that prefer no eviction come last on their node (noEvictionPolicy Preferred)."""


#: Parts of selectors that are compared with a pod in the time of one unit of the round's budget.
_PARTS_PER_UNIT = 100


class PodFilter:
    """The namespaces and pod selectors of a policy."""

    def __init__(self, args: LowNodeLoadArgs) -> None:
        self._namespaces = args.evictable_namespaces
        self._selectors: tuple[LabelSelector, ...] = tuple(
            item.selector for item in args.pod_selectors if item.selector is not None
        )
        parts = sum(
            1 + len(selector.match_labels) + len(selector.match_expressions)
            for selector in self._selectors
        )
        self.units = parts // _PARTS_PER_UNIT
        """Units of the round's budget that the selectors cost per pod, in addition to the check of the pod."""

    def find_gate(self, held: HeldPod) -> Gate | None:
        """Return the gate that stops a pod; None if there is none."""
        pod = held.pod
        if self._namespaces is not None and not self._namespaces.admits(pod.namespace):
            text = f"namespace {pod.namespace} is not among evictableNamespaces"
            return Gate("namespaces", text)
        if self._selectors and not any(
            selector.matches(pod.labels) for selector in self._selectors
        ):
            return Gate("selectors", "none of podSelectors matches the pod's labels")
        return None


def find_measured(
    columns: Columns, args: LowNodeLoadArgs, now_ms: int, resources: Collection[str] = ()
) -> BoolArray:
    """Return a mask of nodes with a fresh metric that has all given resources, shape (nodes,)."""
    fresh: BoolArray = (columns.updated_ms >= 0) & (
        now_ms - columns.updated_ms < args.node_metric_expiration_seconds * 1_000
    )
    indexes = [columns.reading_rules.index[name] for name in resources]
    return fresh & columns.known[indexes].all(axis=0)


def find_classifiable(columns: Columns, resources: Collection[str]) -> BoolArray:
    """Return a mask of nodes with known usage of at least one of the resources, shape (nodes,).

    The number of pods does not count, because it does not come from a metric. By loadstream's rules, the
    node must also have capacity of the resource.
    """
    indexes = [columns.reading_rules.index[name] for name in resources if name != "pods"]
    if not indexes:
        return np.ones(len(columns.nodes), dtype=np.bool_)
    known: BoolArray = columns.known[indexes]
    if columns.reading_rules.differences.unknown_without_capacity:
        known &= columns.capacity[indexes] > 0
    return np.asarray(known.any(axis=0))


def describe_fresh_metric(resources: Collection[str], link: str = "and") -> str:
    """Return a phrase such as "a fresh metric with cpu and memory"."""
    measured = [name for name in resources if name != "pods"]
    return f"a fresh metric with {f' {link} '.join(measured)}" if measured else "a fresh metric"
