"""Chooses a node for a kind of pod, looking only at nodes that have changed.

Rows are nodes in ascending order of names, so that the first of equal scores is the first by name. For
each kind of pod the placer keeps a `Ranking`: who refuses each node, and each node's total. When a node
changes, its row is written to a log; a ranking that is asked again looks at the rows logged since, one
by one, and computes everything anew only when it is new, far behind, or the rows have moved.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from schemas.decisions import LoadThresholds
from streams.inventory.kind import Kind
from streams.inventory.node import Node
from streams.placement.plugins.base import Change, Filter, IntArray, Plugin, Score
from streams.placement.ranking import Ranking
from streams.stage.sized_cache import SizedCache

#: Rankings kept; the one asked longest ago is dropped first.
KINDS_MAX = 512
#: Bytes of the rankings kept: 512 of common kinds over 10,000 nodes.
RANKINGS_BYTES_MAX = 128 * 1024 * 1024
#: Bytes of a ranking for each node: totals, raw scores, who refuses it.
_BYTES_PER_NODE = 24
#: Rows remembered; a ranking further behind is computed anew.
LOG_ROWS_MAX = 65_536


class Placer:
    """Columns of all plugins over all nodes, and a ranking for each kind of pod."""

    def __init__(self, filters: Sequence[Filter], scores: Sequence[tuple[Score, int]]) -> None:
        self.filters = tuple(filters)
        self.scores = tuple(scores)
        self._plugins: tuple[Plugin, ...] = (*self.filters, *(score for score, _ in scores))
        self._watching = [
            [plugin.refresh for plugin in self._plugins if plugin.watches & change]
            for change in range(Change.ALL + 1)
        ]
        self.nodes: list[Node] = []
        """By row, in ascending order of names."""
        self.now_ms = 0
        """The log's time; whoever advances it touches the nodes that change by it."""
        self.load_thresholds: LoadThresholds | None = None
        """What decisions say of load thresholds that move."""
        self.lacking: Counter[tuple[str, int]] = Counter()
        """Nodes that are judged by estimates, by the statistic that their metrics lack."""
        self.generation = 0
        """Counts how often rows have moved."""
        self.version = 0
        """Grows with every change: as long as it stays, every ranking stays."""
        self.log: list[tuple[int, int]] = []
        """Rows and what about them changed, in the order of the changes, from `log_start` on."""
        self.log_start = 0
        self._rankings = SizedCache[bytes, Ranking](RANKINGS_BYTES_MAX, KINDS_MAX)

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.nodes)

    @property
    def log_end(self) -> int:
        """Position after the newest change."""
        return self.log_start + len(self.log)

    def layout(self, nodes: Iterable[Node]) -> None:
        """Give rows to exactly these nodes. Rankings are computed anew."""
        self.nodes = sorted(nodes, key=lambda node: node.name)
        source: IntArray = np.array([node.row for node in self.nodes], dtype=np.int64)
        for plugin in self._plugins:
            plugin.relayout(source)
        self.generation += 1
        self.version += 1
        self._rankings.clear()
        for row, node in enumerate(self.nodes):
            new = node.row < 0
            node.row = row
            if new:
                self.touch(row, Change.ALL)

    def touch(self, row: int, change: int) -> None:
        """Something about a node has changed: bring its columns up to date."""
        node = self.nodes[row]
        for refresh in self._watching[change]:
            refresh(row, node, self.now_ms)
        self.log.append((row, change))
        self.version += 1
        if len(self.log) > LOG_ROWS_MAX:
            drop = len(self.log) // 2
            del self.log[:drop]
            self.log_start += drop

    def rank(self, kind: Kind) -> Ranking:
        """The ranking of a kind of pod, up to date."""
        ranking = self._rankings.renew(kind.key)
        if ranking is None:
            ranking = Ranking(self, kind)
            # What the plugins have prepared takes about as much as the kind.
            self._rankings.put(kind.key, ranking, _BYTES_PER_NODE * self.size + 2 * kind.size)
        ranking.sync()
        return ranking
