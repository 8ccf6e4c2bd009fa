"""Figures of all nodes as arrays; the last axis has one row per node.

Rows are in ascending order of node names; nodes without a node-state record have no row. The inventory
lists the nodes that have changed. `refresh` updates all of them, or a few at a time, so that the work can
be spread over the ticks between two rounds.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from schemas.policy.selectors import LabelSelector
from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.placement.filters.fit import NodeResourcesFit
from streams.placement.filters.node_affinity import NodeAffinity
from streams.placement.filters.taints import TaintToleration, select_avoided
from streams.rebalance.node_figures import NodeFigures, ReadingRules
from streams.stage.arrays import BoolArray, IntArray


class Columns:
    """Capacity, usage and membership of all nodes."""

    def __init__(
        self,
        reading_rules: ReadingRules,
        selectors: Sequence[LabelSelector | None],
        included: LabelSelector | None = None,
    ) -> None:
        """Start without nodes.

        Args:
            reading_rules: which resources are read from metrics, and how.
            selectors: node selectors of the pools; None selects every node.
            included: selector of the nodes that rounds include; None for all nodes.
        """
        self.reading_rules = reading_rules
        self._selectors = (*selectors, included)
        self.nodes: list[NodeFigures] = []
        self.names: NDArray[np.object_] = np.zeros(0, dtype=np.object_)
        """Names of the nodes, shape (nodes,)."""
        self._rows: dict[str, int] = {}
        self._generation = -1
        """Generation of the node index to which the rows belong."""
        self.capacity: IntArray
        """Shape (resources, nodes)."""
        self.usage: IntArray
        self.prod_usage: IntArray
        self.pending: IntArray
        """Usage that recently placed pods are expected to add."""
        self.updated_ms: IntArray
        """Shape (nodes,): time of the metric, -1 without a metric."""
        self.known: BoolArray
        """Shape (resources, nodes): the metric has the resource, or the node's capacity is 0."""
        self.memory_is: NDArray[np.object_]
        """Shape (nodes,): definition of memory usage of the metric, None if unknown."""
        self.schedulable: BoolArray
        self.members: BoolArray
        """Shape (pools, nodes): the pool's selector selects the node."""
        self.included: BoolArray
        self.affinity = NodeAffinity()
        self.taints = TaintToleration()
        self.free = NodeResourcesFit()
        self._allocate(0)

    def find_row(self, name: str) -> int | None:
        return self._rows.get(name)

    def refresh(self, inventory: Inventory, most: int | None = None) -> int:
        """Refresh at most `most` changed nodes, or all; return the number of nodes left."""
        index = inventory.update_index()
        touched = inventory.touched
        if index.generation != self._generation:
            self._relayout(index.nodes, touched)
            self._generation = index.generation
        names = list(islice(touched, most))
        rows: list[int] = []
        for name in names:
            row = self._rows.get(name)
            node = inventory.nodes.get(name)
            if row is not None and node is not None:
                self._refresh_row(row, node)
                rows.append(row)
        self._copy_figures(rows)
        for name in names:
            del touched[name]  # last, so that an exception does not lose a change
        return len(touched)

    def count_memory_kinds(self, rows: IntArray, resources: Collection[str]) -> dict[str, int]:
        """Count nodes by their definition of memory usage; empty if only one counts, or none."""
        counts = Counter(filter(None, self.memory_is[rows].tolist()))
        return dict(sorted(counts.items())) if len(counts) > 1 and "memory" in resources else {}

    def _copy_figures(self, rows: list[int]) -> None:
        if not rows:
            return
        nodes = [self.nodes[row] for row in rows]
        self.usage[:, rows] = np.array([node.usage for node in nodes], dtype=np.int64).T
        self.prod_usage[:, rows] = np.array([node.prod_usage for node in nodes], dtype=np.int64).T
        self.pending[:, rows] = np.array([node.pending for node in nodes], dtype=np.int64).T
        self.known[:, rows] = np.array([node.known for node in nodes], dtype=np.bool_).T
        self.updated_ms[rows] = [node.updated_ms for node in nodes]
        self.memory_is[rows] = [node.metric and node.metric.memory_is for node in nodes]

    def _refresh_row(self, row: int, node: Node) -> None:
        figures = self.nodes[row]
        state_changed = figures.refresh(node)
        self.free.refresh(row, node, 0)
        state = node.state
        self.schedulable[row] = (
            state is not None
            and not state.unschedulable
            and not node.cordoned
            and not (self.reading_rules.differences.avoided_nodes and select_avoided(state.taints))
        )
        if state_changed:
            self._refresh_state(row, node, figures)

    def _refresh_state(self, row: int, node: Node, figures: NodeFigures) -> None:
        state = node.state
        labels: Mapping[str, str] = {} if state is None else state.labels
        self.capacity[:, row] = figures.capacity
        selected = [selector is None or selector.matches(labels) for selector in self._selectors]
        self.members[:, row] = selected[:-1]
        self.included[row] = selected[-1]
        self.affinity.refresh(row, node, 0)
        self.taints.refresh(row, node, 0)

    def _relayout(self, nodes: Sequence[Node], touched: dict[str, None]) -> None:
        """Move rows; nodes that stay keep their figures, new nodes are refreshed next."""
        source = np.array([self._rows.get(node.name, -1) for node in nodes], dtype=np.int64)
        for row, node in enumerate(nodes):
            old = self._rows.get(node.name)
            # A node that was removed and added again with the same name is another object.
            if old is None or self.nodes[old].node is not node:
                source[row] = -1
                touched[node.name] = None
        old_figures = [self.nodes[old] if old >= 0 else None for old in source.tolist()]
        before = self.arrays
        self.nodes = [
            NodeFigures(node.name, self.reading_rules) if old is None else old
            for node, old in zip(nodes, old_figures, strict=True)
        ]
        self._rows = {node.name: row for row, node in enumerate(nodes)}
        self.names = np.array([node.name for node in nodes], dtype=np.object_)
        self._allocate(len(nodes))
        is_old = source >= 0
        for new, old_array in zip(self.arrays, before, strict=True):
            new[..., is_old] = old_array[..., source[is_old]]
        self.affinity.relayout(source)
        self.taints.relayout(source)
        self.free.relayout(source)

    @property
    def arrays(self) -> tuple[IntArray | BoolArray | NDArray[np.object_], ...]:
        return (
            self.capacity,
            self.usage,
            self.prod_usage,
            self.pending,
            self.known,
            self.updated_ms,
            self.memory_is,
            self.schedulable,
            self.members,
            self.included,
        )

    def _allocate(self, size: int) -> None:
        resources = len(self.reading_rules.resources)
        self.capacity = np.zeros((resources, size), dtype=np.int64)
        self.usage = np.zeros((resources, size), dtype=np.int64)
        self.prod_usage = np.zeros((resources, size), dtype=np.int64)
        self.pending = np.zeros((resources, size), dtype=np.int64)
        self.known = np.ones((resources, size), dtype=np.bool_)
        self.updated_ms = np.full(size, -1, dtype=np.int64)
        self.memory_is = np.full(size, None, dtype=np.object_)
        self.schedulable = np.zeros(size, dtype=np.bool_)
        self.members = np.zeros((len(self._selectors) - 1, size), dtype=np.bool_)
        self.included = np.zeros(size, dtype=np.bool_)
