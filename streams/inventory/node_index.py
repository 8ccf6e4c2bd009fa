"""Places of nodes in arrays, and a log of changes of nodes.

Places are in ascending order of names, so the first of equal scores is the first by name. A watcher
keeps arrays over the nodes: it is called for each changed node and when places move. Rankings read
the log of changes since they read it last.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Final, Protocol

import numpy as np

from streams.inventory.node import Node
from streams.stage.arrays import IntArray

#: Length of the log; a reader that is further behind computes everything again.
LOG_ROWS_MAX = 65_536


class Change:
    """Parts of a node that may change, as bits; plain integers, since they are read for each change."""

    STATE: Final = 1
    """Its state in Kubernetes: allocatable, labels, annotations, taints, unschedulable."""
    PODS: Final = 2
    """The pods held on it."""
    METRIC: Final = 4
    """Its usage, or whether its metric is fresh."""
    FLEET: Final = 8
    """Figures of the fleet, for all nodes at once."""
    ALL: Final = 15


class NodeWatcher(Protocol):
    """Keeps arrays over the nodes."""

    def apply_policy(self) -> None:
        """Start again under another policy: no node has a place, and all will get one."""
        ...

    def relayout(self, source: IntArray) -> None:
        """Move places: new place i is old place `source[i]`; -1 is a new node, refreshed next.

        Args:
            source: shape (nodes,), int64.
        """
        ...

    def refresh(self, row: int, node: Node, change: int) -> None:
        """Update the row of a changed node."""
        ...


class NodeIndex:
    """The nodes that Kubernetes has named, with their places."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        """By place, in ascending order of names."""
        self.generation = 0
        """Number of times that places have moved."""
        self.version = 0
        """Grows with every change; results about nodes stay valid while it stays the same."""
        self.log: list[tuple[int, int]] = []
        """Places and changed parts, in the order of the changes; positions begin at `log_start`."""
        self.log_start = 0
        self.watcher: NodeWatcher | None = None

    @property
    def size(self) -> int:
        """Number of nodes with a place."""
        return len(self.nodes)

    @property
    def log_end(self) -> int:
        """Position after the newest change."""
        return self.log_start + len(self.log)

    def apply_policy(self, nodes: Iterable[Node]) -> None:
        """Take all places back under another policy; `nodes`: all nodes."""
        for node in nodes:
            node.row = -1
        self.nodes = []
        self.generation += 1
        self.version += 1
        if self.watcher is not None:
            self.watcher.apply_policy()

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
        """Note that parts of a node have changed."""
        if self.watcher is not None:
            self.watcher.refresh(row, self.nodes[row], change)
        self.log.append((row, change))
        self.version += 1
        if len(self.log) > LOG_ROWS_MAX:
            drop = len(self.log) // 2
            del self.log[:drop]
            self.log_start += drop
