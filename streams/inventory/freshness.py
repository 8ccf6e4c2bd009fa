"""Which nodes have a fresh metric, and which statistics that a policy uses the metrics lack.

A metric expires by time alone: when to look again is noted for each node, and the counts follow.
"""

import heapq
from collections import Counter

from streams.inventory.node import Node
from streams.usage.missing_statistics import MissingStatistic, find_missing_statistics


class Freshness:
    """Counts nodes that have a place."""

    def __init__(self) -> None:
        self.nodes = 0
        """How many nodes have a fresh metric."""
        self.missing: Counter[MissingStatistic] = Counter()
        """Nodes that are judged by estimates, by the statistic that their metrics lack."""
        self._filtered = self._scored = False
        self._expiries: list[tuple[int, str]] = []
        """When to see whether a node's metric has expired."""
        self._expected: dict[str, int] = {}
        """The entry of each node that counts; several metrics of a node make one entry."""

    def judge_anew(self, *, filtered: bool, scored: bool) -> None:
        """Another policy judges; `filtered`, `scored`: its filter or score goes by load."""
        self._filtered, self._scored = filtered, scored
        self._expiries, self._expected = [], {}
        self.nodes = 0  # no node has a place now
        self.missing.clear()

    def enter(self, node: Node, now_ms: int) -> None:
        """A node has got a place beside those that are counted."""
        node.fresh = not node.usage.is_expired(now_ms)
        self.nodes += node.fresh
        node.missing = ()
        self.judge_missing(node)

    def leave(self, node: Node) -> None:
        """A node that was counted has no place any more."""
        self.nodes -= node.fresh
        self.missing.subtract(node.missing)
        node.missing = ()

    def expect(self, node: Node) -> None:
        """Look again when its metric expires."""
        at_ms = node.usage.expires_at_ms
        if at_ms is not None and at_ms < self._expected.get(node.name, at_ms + 1):
            self._expected[node.name] = at_ms
            heapq.heappush(self._expiries, (at_ms, node.name))

    def due(self, now_ms: int) -> list[str]:
        """Names of nodes to look at now, each once; of some the metric is younger by now."""
        due = []
        while self._expiries and self._expiries[0][0] <= now_ms:
            at_ms, name = heapq.heappop(self._expiries)
            if self._expected.get(name) == at_ms:
                del self._expected[name]
                due.append(name)
        return due

    def judge(self, node: Node, now_ms: int) -> None:
        """Its metric is another one, or time has passed."""
        fresh = not node.usage.is_expired(now_ms)
        if node.row >= 0:
            self.nodes += fresh - node.fresh
        node.fresh = fresh

    def find_missing(self, node: Node, *, fresh: bool) -> tuple[MissingStatistic, ...]:
        """Return the statistics that a node's metric lacks; also of a node without a place.

        Args:
            node: the node.
            fresh: its metric has not expired.
        """
        # The score goes by no metric that has expired; the filter does where the policy says so.
        old = fresh or not node.usage.estimator.args.filter_expired_node_metrics
        return find_missing_statistics(
            node.usage, filtered=self._filtered and old, scored=self._scored and fresh
        )

    def judge_missing(self, node: Node) -> None:
        """Update the statistics that a node's metric lacks."""
        missing = self.find_missing(node, fresh=node.fresh)
        if missing != node.missing:
            self.missing.subtract(node.missing)
            self.missing.update(missing)
            node.missing = missing
