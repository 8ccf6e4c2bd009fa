"""Which nodes have a fresh metric, and which statistics of it are missing that nodes are judged by.

A metric expires by time alone: when to look again is noted for each node, and the counts follow.
"""

import heapq
from collections import Counter

from streams.inventory.load import Lacking
from streams.inventory.node import Node


class Freshness:
    """Counts nodes that have a place."""

    def __init__(self) -> None:
        self.nodes = 0
        """How many nodes have a fresh metric."""
        self.lacking: Counter[Lacking] = Counter()
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
        self.lacking.clear()

    def enter(self, node: Node, now_ms: int) -> None:
        """A node has got a place beside those that are counted."""
        node.fresh = not node.load.expired(now_ms)
        self.nodes += node.fresh
        node.lacking = ()
        self.judge_lacking(node)

    def leave(self, node: Node) -> None:
        """A node that was counted has no place any more."""
        self.nodes -= node.fresh
        self.lacking.subtract(node.lacking)
        node.lacking = ()

    def expect(self, node: Node) -> None:
        """Look again when its metric expires."""
        at_ms = node.load.expires_at_ms
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
        fresh = not node.load.expired(now_ms)
        if node.row >= 0:
            self.nodes += fresh - node.fresh
        node.fresh = fresh

    def lacking_of(self, node: Node, *, fresh: bool) -> tuple[Lacking, ...]:
        """Statistics that a node is judged by and its metric lacks; also of one without a place.

        Args:
            node: the node.
            fresh: its metric has not expired.
        """
        # The score goes by no metric that has expired; the filter does where the policy says so.
        old = fresh or not node.load.estimator.args.filter_expired_node_metrics
        return node.load.lacking(filtered=self._filtered and old, scored=self._scored and fresh)

    def judge_lacking(self, node: Node) -> None:
        """Whether its metric has the statistics that it is judged by."""
        lacking = self.lacking_of(node, fresh=node.fresh)
        if lacking != node.lacking:
            self.lacking.subtract(node.lacking)
            self.lacking.update(lacking)
            node.lacking = lacking
