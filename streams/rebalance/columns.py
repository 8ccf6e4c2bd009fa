"""Figures of all nodes as columns, brought up to date for the nodes that have changed.

The inventory notes which nodes were touched; `refresh` packs those anew, all of them or a few at a
time, so that the work may be spread over the ticks between two rounds. What a round then reads are
arrays whose last axis is the node's row, rows in ascending order of node names. Nodes that
Kubernetes has not named have no row.
"""

from collections.abc import Mapping, Sequence
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from schemas.policy.selectors import LabelSelector
from streams.inventory.inventory import Inventory
from streams.inventory.node import Node
from streams.placement.avoided_nodes import avoiding
from streams.placement.filters.fit import NodeResourcesFit
from streams.placement.filters.node_affinity import NodeAffinity
from streams.placement.filters.taints import TaintToleration
from streams.rebalance.node_arrays import NodeFigures, Universe
from streams.rebalance.packed_pods import PackedPods
from streams.stage.arrays import BoolArray, IntArray


class FreeAmounts(NodeResourcesFit):
    """What requests leave free on each node, as placement's filter keeps it."""

    def column(self, resource: str) -> IntArray:
        """Free amounts of all nodes, shape (nodes,)."""
        return self._columns.ask(resource, self._build)


class Columns:
    """Capacity, usage and membership of all nodes."""

    def __init__(
        self,
        universe: Universe,
        selectors: Sequence[LabelSelector | None],
        looked_at: LabelSelector | None = None,
    ) -> None:
        """Start without nodes.

        Args:
            universe: resources and reading.
            selectors: one a pool; None selects every node.
            looked_at: nodes that rounds look at; None: all.
        """
        self.universe = universe
        self._selectors = (*selectors, looked_at)
        self.nodes: list[NodeFigures] = []
        """By row."""
        self.names: NDArray[np.object_] = np.zeros(0, dtype=np.object_)
        """Names of the nodes, shape (nodes,)."""
        self._rows: dict[str, int] = {}
        self.ranked: dict[str, PackedPods] = {}
        """Pods of nodes that have no row yet, by node."""
        self._generation = -1
        """Of which generation of the nodes' places this is."""
        self.capacity: IntArray
        """Shape (resources, nodes)."""
        self.usage: IntArray
        self.prod_usage: IntArray
        self.pending: IntArray
        """Expected beyond the usage: pods that were placed lately."""
        self.updated_ms: IntArray
        """Shape (nodes,): time of the metric, -1 without one."""
        self.known: BoolArray
        """Shape (resources, nodes).

        The metric says something of the resource, or the node has none of it.
        """
        self.schedulable: BoolArray
        self.members: BoolArray
        """Shape (pools, nodes): the pool's selector selects the node."""
        self.looked_at: BoolArray
        self.affinity = NodeAffinity()
        self.taints = TaintToleration()
        self.free = FreeAmounts()
        self._allocate(0)

    def inherit(self, before: "Columns") -> None:
        """Take over pods that were ranked under another policy: a rank is of the pod alone."""
        if before.universe.differences == self.universe.differences:
            self.ranked = {each.name: each.pods for each in before.nodes} | before.ranked

    def row(self, name: str) -> int | None:
        """Row of a node."""
        return self._rows.get(name)

    def refresh(self, inventory: Inventory, most: int | None = None) -> int:
        """Pack at most `most` nodes that have changed, None: all; answers how many are left."""
        index = inventory.lay_out()
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
                self._take(row, node)
                rows.append(row)
        self._put(rows)
        for name in names:
            del touched[name]  # not before: what cannot be packed is met again
        return len(touched)

    def _put(self, rows: list[int]) -> None:
        """Write what was packed of some rows, all of them at once."""
        if not rows:
            return
        packed = [self.nodes[row] for row in rows]
        self.usage[:, rows] = np.array([each.usage for each in packed], dtype=np.int64).T
        self.prod_usage[:, rows] = np.array([each.prod_usage for each in packed], dtype=np.int64).T
        self.pending[:, rows] = np.array([each.pending for each in packed], dtype=np.int64).T
        self.known[:, rows] = np.array([each.known for each in packed], dtype=np.bool_).T
        self.updated_ms[rows] = [each.updated_ms for each in packed]

    def _take(self, row: int, node: Node) -> None:
        figures = self.nodes[row]
        described = figures.take(node, self.universe)
        self.free.refresh(row, node, 0)
        state = node.state
        self.schedulable[row] = (
            state is not None
            and not state.unschedulable
            and not node.cordoned
            and not (self.universe.differences.avoided_nodes and avoiding(state.taints))
        )
        if described:
            self._describe(row, node, figures)

    def _describe(self, row: int, node: Node, figures: NodeFigures) -> None:
        state = node.state
        labels: Mapping[str, str] = {} if state is None else state.labels
        self.capacity[:, row] = figures.capacity
        selected = [each is None or each.matches(labels) for each in self._selectors]
        self.members[:, row] = selected[:-1]
        self.looked_at[row] = selected[-1]
        self.affinity.refresh(row, node, 0)
        self.taints.refresh(row, node, 0)

    def _relayout(self, nodes: Sequence[Node], touched: dict[str, None]) -> None:
        """Rows have moved.

        Nodes that stay keep their figures, those that are new are packed next.
        """
        source = np.array([self._rows.get(node.name, -1) for node in nodes], dtype=np.int64)
        for row, node in enumerate(nodes):
            old = self._rows.get(node.name)
            # A node that was removed and came back under its name is another object.
            if old is None or self.nodes[old].node is not node:
                source[row] = -1
                touched[node.name] = None
        kept = [self.nodes[old] if old >= 0 else None for old in source.tolist()]
        before = self.arrays()
        self.nodes = [
            self._new(node.name) if old is None else old
            for node, old in zip(nodes, kept, strict=True)
        ]
        self.ranked.clear()
        self._rows = {node.name: row for row, node in enumerate(nodes)}
        self.names = np.array([node.name for node in nodes], dtype=np.object_)
        self._allocate(len(nodes))
        known = source >= 0
        for new, old_array in zip(self.arrays(), before, strict=True):
            new[..., known] = old_array[..., source[known]]
        self.affinity.relayout(source)
        self.taints.relayout(source)
        self.free.relayout(source)

    def _new(self, name: str) -> NodeFigures:
        return NodeFigures(name, self.universe, self.ranked.get(name))

    def arrays(self) -> tuple[IntArray | BoolArray, ...]:
        """All arrays, in a fixed order."""
        return (
            self.capacity,
            self.usage,
            self.prod_usage,
            self.pending,
            self.known,
            self.updated_ms,
            self.schedulable,
            self.members,
            self.looked_at,
        )

    def _allocate(self, size: int) -> None:
        resources = len(self.universe.resources)
        self.capacity = np.zeros((resources, size), dtype=np.int64)
        self.usage = np.zeros((resources, size), dtype=np.int64)
        self.prod_usage = np.zeros((resources, size), dtype=np.int64)
        self.pending = np.zeros((resources, size), dtype=np.int64)
        self.known = np.ones((resources, size), dtype=np.bool_)
        self.updated_ms = np.full(size, -1, dtype=np.int64)
        self.schedulable = np.zeros(size, dtype=np.bool_)
        self.members = np.zeros((len(self._selectors) - 1, size), dtype=np.bool_)
        self.looked_at = np.zeros(size, dtype=np.bool_)
