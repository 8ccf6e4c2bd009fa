"""Filter NodePorts: two pods cannot use the same host port of a node.

A host port is a protocol, a number and an address. The address 0.0.0.0, or an empty one, means all
addresses of the node, so it conflicts with every other address. Two other addresses conflict if they
are equal. As in Kubernetes, "::" is an ordinary address.

A port in use leaves two marks on its node: one with its address, and one with the address "*". A port
on one address conflicts with marks of this address and of 0.0.0.0. A port on all addresses conflicts with
marks of "*". So one set operation checks a node, and one look-up per mark checks all nodes.
"""

from collections.abc import Iterable

import numpy as np

from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.plugin import SingleReasonFilter
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, IntArray

#: Protocol, port, address.
Port = tuple[str, int, str]
_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - compared with, never bound to
_SOME_ADDRESS = "*"


def find_used_marks(ports: Iterable[Port]) -> frozenset[Port]:
    """Return the marks that ports in use leave on their node."""
    return frozenset(
        (protocol, port, mark)
        for protocol, port, address in ports
        for mark in (address or _ALL_ADDRESSES, _SOME_ADDRESS)
    )


def find_conflicting_marks(ports: Iterable[Port]) -> frozenset[Port]:
    """Return the marks that ports conflict with."""
    marks: set[Port] = set()
    for protocol, port, address in ports:
        if address in ("", _ALL_ADDRESSES):
            marks.add((protocol, port, _SOME_ADDRESS))
        else:
            marks.update(((protocol, port, address), (protocol, port, _ALL_ADDRESSES)))
    return frozenset(marks)


class NodePorts(SingleReasonFilter):
    name = "NodePorts"
    single_reason = "node(s) didn't have free ports for the requested pod ports"
    watches = Change.PODS | Change.STATE
    columns = ("_marks",)

    def __init__(self) -> None:
        self._marks: list[frozenset[Port] | None] = []
        """Marks by row; None for a new row."""
        self._rows: dict[Port, set[int]] = {}
        """Rows by mark."""

    def relayout(self, source: IntArray) -> None:
        super().relayout(source)
        self._rows = {}
        for row, marks in enumerate(self._marks):
            if marks:
                self._index(row, marks)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        marks, old_marks = find_used_marks(node.ports), self._marks[row] or frozenset()
        if marks == old_marks:
            return
        for mark in old_marks - marks:
            self._rows[mark].discard(row)
            if not self._rows[mark]:
                del self._rows[mark]
        self._marks[row] = marks
        self._index(row, marks - old_marks)

    def prepare(self, kind: Kind) -> frozenset[Port]:
        ports = kind.demand.host_ports
        return find_conflicting_marks((port.protocol, port.port, port.host_ip) for port in ports)

    def mask(self, prepared: frozenset[Port]) -> BoolArray | None:
        rows_in_use = [self._rows[mark] for mark in prepared if mark in self._rows]
        if not rows_in_use:
            return None
        free = np.ones(len(self._marks), dtype=np.bool_)
        for rows in rows_in_use:
            free[np.fromiter(rows, dtype=np.int64, count=len(rows))] = False
        return free

    def can_refuse(self, prepared: frozenset[Port]) -> bool:
        return bool(prepared)

    def reason(self, prepared: frozenset[Port], row: int) -> str | None:
        marks = self._marks[row]
        return None if not marks or prepared.isdisjoint(marks) else self.single_reason

    def _index(self, row: int, marks: Iterable[Port]) -> None:
        for mark in marks:
            self._rows.setdefault(mark, set()).add(row)
