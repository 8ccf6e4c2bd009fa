"""Which nodes have a fresh metric, and what the metrics lack.

A metric expires by time alone, so the time of the next check is kept for each node.
"""

import heapq
from collections import Counter

from streams.inventory.node import Node
from streams.usage.missing_usage import MissingUsage, find_missing_usage


class Freshness:
    """Counts of nodes that have a place."""

    def __init__(self) -> None:
        self.nodes = 0
        """Number of nodes with a fresh metric."""
        self.missing: Counter[MissingUsage] = Counter()
        """Number of nodes whose metrics lack something, by what they lack."""
        self._filtered = self._scored = False
        self._at_risk: tuple[str, ...] = ()
        self._expiries: list[tuple[int, str]] = []
        """A heap of times and nodes whose metrics may expire then."""
        self._expected: dict[str, int] = {}
        """Time of the valid entry of each node; others in the heap are void."""

    def apply_policy(self, *, filtered: bool, scored: bool, at_risk: tuple[str, ...]) -> None:
        """Start again under another policy.

        Args:
            filtered: it filters by load.
            scored: it scores by load.
            at_risk: resources that it scores by risk.
        """
        self._filtered, self._scored, self._at_risk = filtered, scored, at_risk
        self._expiries, self._expected = [], {}
        self.nodes = 0  # no node has a place now
        self.missing.clear()

    def enter(self, node: Node, now_ms: int) -> None:
        """Count a node that has got a place."""
        node.fresh = not node.usage.is_expired(now_ms)
        self.nodes += node.fresh
        node.missing = ()
        self.judge_missing(node)

    def leave(self, node: Node) -> None:
        """Stop counting a node: it has no place any more."""
        self.nodes -= node.fresh
        self.missing.subtract(node.missing)
        node.missing = ()

    def expect(self, node: Node) -> None:
        """Check a node when its metric expires."""
        at_ms = node.usage.expires_at_ms
        if at_ms is not None and at_ms < self._expected.get(node.name, at_ms + 1):
            self._expected[node.name] = at_ms
            heapq.heappush(self._expiries, (at_ms, node.name))

    def due(self, now_ms: int) -> list[str]:
        """Return the names of nodes to check now; some have a newer metric."""
        due = []
        while self._expiries and self._expiries[0][0] <= now_ms:
            at_ms, name = heapq.heappop(self._expiries)
            if self._expected.get(name) == at_ms:
                del self._expected[name]
                due.append(name)
        return due

    def judge(self, node: Node, now_ms: int) -> None:
        """Update whether the metric of a node is fresh."""
        fresh = not node.usage.is_expired(now_ms)
        if node.row >= 0:
            self.nodes += fresh - node.fresh
        node.fresh = fresh

    def find_missing(self, node: Node, *, fresh: bool) -> tuple[MissingUsage, ...]:
        """Return what a node's metric lacks; also of a node without a place.

        Args:
            node: the node.
            fresh: its metric has not expired.
        """
        # The score goes by no metric that has expired; the filter does where the policy says so.
        old = fresh or not node.usage.estimator.args.filter_expired_node_metrics
        return find_missing_usage(
            node.usage,
            filtered=self._filtered and old,
            scored=self._scored and fresh,
            at_risk=[name for name in self._at_risk if fresh and node.capacity.get(name, 0) > 0],
        )

    def judge_missing(self, node: Node) -> None:
        """Update what a node's metric lacks."""
        missing = self.find_missing(node, fresh=node.fresh)
        if missing != node.missing:
            self.missing.subtract(node.missing)
            self.missing.update(missing)
            node.missing = missing
