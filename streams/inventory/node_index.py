"""Rows of nodes in arrays, and a log of changes of nodes.

Rows are in ascending order of names, so the first of equal scores is the first by name. The placer and its
rankings have arrays over the nodes, and read the log to update them.
"""

from collections.abc import Iterable
from operator import attrgetter
from typing import Final

from streams.inventory.node import Node

#: Maximum length of the log. A reader that has missed entries recomputes all rows.
LOG_ROWS_MAX = 65_536


class Change:
    """Parts of a node that may change, as bits. Plain integers, which are faster than an enum."""

    STATE: Final = 1
    """State in Kubernetes: allocatable, labels, annotations, taints, unschedulable."""
    PODS: Final = 2
    """Pods held on the node."""
    METRIC: Final = 4
    """Usage, or whether the metric is fresh."""
    FLEET: Final = 8
    """Usage of the cluster's pods (`streams.risk.fleet_usage`), for all nodes at once."""
    ALL: Final = 15


class NodeIndex:
    """The nodes with a state in Kubernetes, by row."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        """In ascending order of names."""
        self.generation = 0
        """Number of times that nodes got other rows."""
        self.version = 0
        """Grows with every change of a node."""
        self.log: list[tuple[Node, int]] = []
        """Nodes and changed parts, in the order of the changes; positions begin at `log_start`."""
        self.log_start = 0

    @property
    def size(self) -> int:
        return len(self.nodes)

    @property
    def log_end(self) -> int:
        return self.log_start + len(self.log)

    def clear(self, nodes: Iterable[Node]) -> None:
        """Remove the rows of all nodes, because the policy has changed."""
        for node in nodes:
            node.row = -1
        self.nodes = []
        self.generation += 1
        self.version += 1

    def assign_rows(self, nodes: Iterable[Node]) -> None:
        """Give rows to exactly these nodes."""
        self.nodes = sorted(nodes, key=attrgetter("name"))
        self.generation += 1
        self.version += 1
        for row, node in enumerate(self.nodes):
            is_new = node.row < 0
            node.row = row
            if is_new:
                self.touch(node, Change.ALL)

    def touch(self, node: Node, change: int) -> None:
        """Log that parts of a node with a row have changed."""
        self.log.append((node, change))
        self.version += 1
        if len(self.log) > LOG_ROWS_MAX:
            dropped = len(self.log) // 2
            del self.log[:dropped]
            self.log_start += dropped
