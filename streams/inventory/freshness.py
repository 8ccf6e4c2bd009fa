"""Counts nodes with a fresh metric, and nodes whose metric lacks usage that the policy needs."""

from collections import Counter

from schemas.policy import LOAD_AWARE, OVERUTILIZATION_RISK, Policy
from streams.inventory.node import Node
from streams.usage.missing_usage import MissingUsage, find_missing_usage


class Freshness:
    """Counts of nodes that have a row."""

    def __init__(self) -> None:
        self.nodes = 0
        """Number of nodes with a fresh metric."""
        self.missing: Counter[MissingUsage] = Counter()
        """Number of nodes by the usage that their metrics lack."""
        self._filters_by_load = self._scores_by_load = False
        self._risk_resources: tuple[str, ...] = ()

    def apply_policy(self, policy: Policy) -> None:
        """Forget all nodes, and apply a policy."""
        self._filters_by_load = policy.plugins.filters(LOAD_AWARE)
        self._scores_by_load = policy.plugins.scores(LOAD_AWARE)
        by_risk = policy.plugins.scores(OVERUTILIZATION_RISK)
        resources = policy.overutilization_risk.resources if by_risk else ()
        self._risk_resources = tuple(resource.name for resource in resources)
        self.nodes = 0
        self.missing.clear()

    def add(self, node: Node, now_ms: int) -> None:
        """Count a node that gets a row."""
        node.fresh = not node.usage.is_expired(now_ms)
        self.nodes += node.fresh
        node.missing = ()
        self.update_missing(node)

    def remove(self, node: Node) -> None:
        """Stop counting a node that loses its row."""
        self.nodes -= node.fresh
        self.missing.subtract(node.missing)
        node.missing = ()

    def update_fresh(self, node: Node, now_ms: int) -> None:
        fresh = not node.usage.is_expired(now_ms)
        if node.row >= 0:
            self.nodes += fresh - node.fresh
        node.fresh = fresh

    def find_missing(self, node: Node, *, fresh: bool) -> tuple[MissingUsage, ...]:
        """Return the usage that is missing in a node's metric; `fresh`: the metric has not expired."""
        # Scores ignore an expired metric. The filter uses it if the policy says so.
        is_filtered = fresh or not node.usage.estimator.args.filter_expired_node_metrics
        return find_missing_usage(
            node.usage,
            filters_by_load=self._filters_by_load and is_filtered,
            scores_by_load=self._scores_by_load and fresh,
            risk_resources=[
                name for name in self._risk_resources if fresh and node.capacity.get(name, 0) > 0
            ],
        )

    def update_missing(self, node: Node) -> None:
        missing = self.find_missing(node, fresh=node.fresh)
        if missing != node.missing:
            self.missing.subtract(node.missing)
            self.missing.update(missing)
            node.missing = missing
