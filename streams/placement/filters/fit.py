"""Filter NodeResourcesFit: the node must have room for the pod's requests.

The free amount of a resource is the node's allocatable less the requests of the pods held there, and 0
without an allocatable amount. Every pod takes one unit of the resource `pods`. Resources that the pod does
not request are not checked. So a node whose allocatable has shrunk below the requests of its pods still
accepts pods that do not request that resource.

Each refused node gets the first of these reasons: pods, cpu, memory, ephemeral storage, then the other
resources by name. kube-scheduler reports all reasons of a node, so its counts may add up to more
than the number of nodes.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.columns import LazyColumns, NameCounts
from streams.placement.plugin import Filter
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, IntArray

#: Most resource columns that are kept.
COLUMNS_MAX = 64

#: Resource and amount: millicores, bytes, pieces.
Requests = tuple[tuple[str, int], ...]

_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1
_CHECKED_AFTER_PODS = ("cpu", "memory", "ephemeral-storage")
_CHECKED_FIRST = {"pods", *_CHECKED_AFTER_PODS}
_ONE_POD = ("pods", 1)


def _format_reason(resource: str) -> str:
    return "Too many pods" if resource == "pods" else f"Insufficient {resource}"


def list_needed_amounts(kind: Kind) -> Requests:
    """Return the amounts that a pod of the kind needs, in the order of the checks."""
    requests = kind.demand.requests
    amounts = [_ONE_POD]
    amounts += [(name, requests[name]) for name in _CHECKED_AFTER_PODS if requests.get(name, 0) > 0]
    others = requests.keys() - _CHECKED_FIRST
    amounts += [(name, requests[name]) for name in sorted(others) if requests[name] > 0]
    return tuple(amounts)


def compute_free(node: Node) -> dict[str, int]:
    """Return the free amounts of a node, below 0 if its pods request more than its allocatable."""
    requested = node.requested
    free = {name: amount - requested.get(name, 0) for name, amount in node.allocatable.items()}
    if "pods" in free:
        free["pods"] = node.allocatable["pods"] - len(node.held)
    return free


class NodeResourcesFit(Filter):
    name = "NodeResourcesFit"
    watches = Change.PODS | Change.STATE
    columns = ("_free",)

    def __init__(self) -> None:
        self._free: list[dict[str, int] | None] = []
        """Free amounts by row; None for a new row."""
        self._columns = LazyColumns[IntArray](COLUMNS_MAX)
        """Free amounts of all rows by resource, shape (nodes,)."""
        self._node_counts = NameCounts()
        """Number of nodes with each resource."""

    def relayout(self, source: IntArray) -> None:
        self._node_counts.relayout(self._free, source)
        super().relayout(source)
        is_old = source >= 0
        for name, column in self._columns.items():
            moved = np.zeros(source.size, dtype=np.int64)
            moved[is_old] = column[source[is_old]]
            self._columns[name] = moved

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        free = compute_free(node)
        self._node_counts.replace(self._free[row], free)
        self._free[row] = free
        for name, column in self._columns.items():
            try:
                column[row] = free.get(name, 0)
            except OverflowError:
                column[row] = _clamp(free[name])

    def prepare(self, kind: Kind) -> Requests:
        return list_needed_amounts(kind)

    def mask(self, prepared: Requests) -> BoolArray | None:
        fits: BoolArray | None = None
        for name, amount in prepared:
            column = self.get_column(name)
            if column is None:
                return np.zeros(len(self._free), dtype=np.bool_)
            enough = column >= amount
            fits = enough if fits is None else np.logical_and(fits, enough, out=fits)
        return fits

    def reason(self, prepared: Requests, row: int) -> str | None:
        free: Mapping[str, int] = self._free[row] or {}
        for name, amount in prepared:
            if free.get(name, 0) < amount:
                return _format_reason(name)
        return None

    def reasons(self, prepared: Requests, rows: IntArray) -> Iterable[tuple[str, IntArray]]:
        for name, amount in prepared:
            if not rows.size:
                return
            column = self.get_column(name)
            short = np.ones(rows.size, dtype=np.bool_) if column is None else column[rows] < amount
            if short.any():
                yield _format_reason(name), rows[short]
                rows = rows[~short]

    def get_column(self, name: str) -> IntArray | None:
        """Return the free amounts of all nodes, shape (nodes,); None if no node has the resource."""
        return self._columns.get_or_build(name, self._build) if name in self._node_counts else None

    def _build(self, name: str) -> IntArray:
        amounts = [0 if free is None else free.get(name, 0) for free in self._free]
        try:
            return np.array(amounts, dtype=np.int64)
        except OverflowError:
            return np.array([_clamp(amount) for amount in amounts], dtype=np.int64)


def _clamp(amount: int) -> int:
    # Requests are at most 2^63-1, so larger free amounts need no distinction.
    return min(max(amount, _INT64_MIN), _INT64_MAX)
