"""Figures of all nodes as arrays; the last axis has one row per node.

Rows are in ascending order of node names; nodes without a node-state record have no row. The inventory
lists the nodes that have changed. `refresh` updates all of them, or a few at a time, so that the work can
be spread over the ticks between two rounds.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from itertools import islice
from typing import Any, TypeVar

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

T = TypeVar("T", bound=np.generic)


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
        self.rules = (reading_rules, self._selectors)
        """Columns with equal rules have equal figures."""
        self.nodes: list[NodeFigures] = []
        self.names: NDArray[np.object_] = np.zeros(0, dtype=np.object_)
        """Names of the nodes, shape (nodes,)."""
        self._rows: dict[str, int] = {}
        self._generation = -1
        """Generation of the node index to which the rows belong."""
        amounts: IntArray = np.zeros((len(reading_rules.resources), 0), dtype=np.int64)
        self.capacity = self.usage = self.prod_usage = amounts
        """Shape (resources, nodes)."""
        self.pending = amounts
        """Usage that recently placed pods are expected to add."""
        self.updated_ms: IntArray = np.zeros(0, dtype=np.int64)
        """Shape (nodes,): time of the metric, -1 without a metric."""
        self.known: BoolArray = np.zeros(amounts.shape, dtype=np.bool_)
        """Shape (resources, nodes): the metric has the resource, or the node's capacity is 0."""
        self.memory_is: NDArray[np.object_] = np.zeros(0, dtype=np.object_)
        """Shape (nodes,): definition of memory usage of the metric, None if unknown."""
        self.schedulable: BoolArray = np.zeros(0, dtype=np.bool_)
        self.members: BoolArray = np.zeros((len(selectors), 0), dtype=np.bool_)
        """Shape (pools, nodes): the pool's selector selects the node."""
        self.included: BoolArray = np.zeros(0, dtype=np.bool_)
        self.affinity = NodeAffinity()
        self.taints = TaintToleration()
        self.free = NodeResourcesFit()

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
        source = []
        for node in nodes:
            old = self._rows.get(node.name, -1)
            # A node that was removed and added again with the same name is another object.
            if old < 0 or self.nodes[old].node is not node:
                old = -1
                touched[node.name] = None
            source.append(old)
        self.nodes = [
            NodeFigures(node.name, self.reading_rules) if old < 0 else self.nodes[old]
            for node, old in zip(nodes, source, strict=True)
        ]
        self._rows = {node.name: row for row, node in enumerate(nodes)}
        self.names = np.array([node.name for node in nodes], dtype=np.object_)
        source_rows = np.array(source, dtype=np.int64)
        self.capacity = _move(self.capacity, source_rows, 0)
        self.usage = _move(self.usage, source_rows, 0)
        self.prod_usage = _move(self.prod_usage, source_rows, 0)
        self.pending = _move(self.pending, source_rows, 0)
        self.updated_ms = _move(self.updated_ms, source_rows, -1)
        self.known = _move(self.known, source_rows, True)
        self.memory_is = _move(self.memory_is, source_rows, None)
        self.schedulable = _move(self.schedulable, source_rows, False)
        self.members = _move(self.members, source_rows, False)
        self.included = _move(self.included, source_rows, False)
        for plugin in (self.affinity, self.taints, self.free):
            plugin.relayout(source_rows)


def _move(array: NDArray[T], source: IntArray, fill: Any) -> NDArray[T]:
    """Return an array with the given columns of another; -1 stands for a column of `fill`."""
    last = np.full((*array.shape[:-1], 1), fill, dtype=array.dtype)
    return np.concatenate([array, last], axis=-1).take(source, axis=-1)
