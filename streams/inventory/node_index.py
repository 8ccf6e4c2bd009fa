"""The places of nodes in arrays, and what about them has changed.

Places are in ascending order of names, so that the first of equal scores is the first by name. What
keeps arrays over the nodes watches: it hears at once of a node that has changed and of places that
have moved. What only looks now and then, as a ranking does, reads the log of changes since it
looked last.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Final, Protocol

import numpy as np

from streams.inventory.node import Node
from streams.stage.arrays import IntArray

#: Changes remembered; what is further behind is computed anew.
LOG_ROWS_MAX = 65_536


class Change:
    """What about a node has changed, as bits; plain numbers, since every change looks at them."""

    STATE: Final = 1
    """What Kubernetes says: allocatable, labels, annotations, taints, unschedulable."""
    PODS: Final = 2
    """The pods held there."""
    METRIC: Final = 4
    """Its usage, or whether that is fresh."""
    FLEET: Final = 8
    """By what its usage is worked out: what the cluster's pods use of their requests, of all nodes at
    once."""
    ALL: Final = 15


class NodeWatcher(Protocol):
    """Keeps arrays over the nodes."""

    def judge_anew(self) -> None:
        """Another policy judges the nodes: no node has a place now, and all of them get one again."""
        ...

    def relayout(self, source: IntArray) -> None:
        """Places have moved: new place i is old place `source[i]`; -1 is a new node, which is
        refreshed next.

        Args:
            source: shape (nodes,), int64.
        """
        ...

    def refresh(self, row: int, node: Node, change: int) -> None:
        """Something about a node has changed."""
        ...


class NodeIndex:
    """The nodes that Kubernetes has named, each with its place."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        """By place, in ascending order of names."""
        self.generation = 0
        """Counts how often places have moved."""
        self.version = 0
        """Grows with every change: as long as it stays, every answer about nodes stays."""
        self.log: list[tuple[int, int]] = []
        """Places and what about them changed, in the order of the changes, from `log_start` on."""
        self.log_start = 0
        self.watcher: NodeWatcher | None = None

    @property
    def size(self) -> int:
        """How many nodes there are."""
        return len(self.nodes)

    @property
    def log_end(self) -> int:
        """Position after the newest change."""
        return self.log_start + len(self.log)

    def judge_anew(self, nodes: Iterable[Node]) -> None:
        """Take all places back, since everything about the nodes is judged anew.

        Args:
            nodes: all that there are.
        """
        for node in nodes:
            node.row = -1
        self.nodes = []
        self.generation += 1
        self.version += 1
        if self.watcher is not None:
            self.watcher.judge_anew()

    def layout(self, nodes: Iterable[Node]) -> None:
        """Give places to exactly these nodes."""
        self.nodes = sorted(nodes, key=attrgetter("name"))
        source: IntArray = np.array([node.row for node in self.nodes], dtype=np.int64)
        if self.watcher is not None:
            self.watcher.relayout(source)
        self.generation += 1
        self.version += 1
        for row in np.flatnonzero(source != np.arange(source.size)).tolist():
            node = self.nodes[row]
            new = node.row < 0
            node.row = row
            if new:
                self.touch(row, Change.ALL)

    def touch(self, row: int, change: int) -> None:
        """Something about a node has changed."""
        if self.watcher is not None:
            self.watcher.refresh(row, self.nodes[row], change)
        self.log.append((row, change))
        self.version += 1
        if len(self.log) > LOG_ROWS_MAX:
            drop = len(self.log) // 2
            del self.log[:drop]
            self.log_start += drop
