"""Filter NodePorts: two pods cannot take one port of a node.

A port is a protocol, a number and an address. The address 0.0.0.0, which an empty one means too, is
all addresses of the node, so it collides with every other; two addresses that differ do not
collide. As for Kubernetes, "::" is an address like any other.

Each port taken leaves marks: one for its address and one that says "taken on some address". Each
port wanted looks for marks: on one address for that address and 0.0.0.0, on all addresses for "on
some address". A node is refused when a mark is found, which is one set operation for a node, and
for all nodes one look-up a mark.
"""

from collections.abc import Iterable

import numpy as np

from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.plugin import SingleReasonFilter
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, IntArray

REASON = "node(s) didn't have free ports for the requested pod ports"

#: Protocol, port, address.
Port = tuple[str, int, str]
_ALL_ADDRESSES = "0.0.0.0"  # noqa: S104 - compared with, never bound to
_SOME_ADDRESS = "*"
_NONE: frozenset[Port] = frozenset()


def marks_of_taken(ports: Iterable[Port]) -> frozenset[Port]:
    """The marks that ports leave on their node."""
    return frozenset(
        (protocol, port, mark)
        for protocol, port, address in ports
        for mark in (address or _ALL_ADDRESSES, _SOME_ADDRESS)
    )


def marks_against(ports: Iterable[Port]) -> frozenset[Port]:
    """The marks that keep ports from being taken."""
    marks: set[Port] = set()
    for protocol, port, address in ports:
        if address in ("", _ALL_ADDRESSES):
            marks.add((protocol, port, _SOME_ADDRESS))
        else:
            marks.update(((protocol, port, address), (protocol, port, _ALL_ADDRESSES)))
    return frozenset(marks)


class NodePorts(SingleReasonFilter):
    """Refuses nodes on which a host port of the pod is taken."""

    name = "NodePorts"
    single_reason = REASON
    watches = Change.PODS | Change.STATE
    columns = ("_ports", "_marks")

    def __init__(self) -> None:
        self._ports: list[frozenset[Port] | None] = []
        """Ports taken, to see whether they changed; None on a row that is new."""
        self._marks: list[frozenset[Port] | None] = []
        self._rows: dict[Port, set[int]] = {}
        """Rows that have a mark."""

    def relayout(self, source: IntArray) -> None:
        super().relayout(source)
        self._rows = {}
        for row, marks in enumerate(self._marks):
            if marks:
                self._index(row, marks)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        if node.ports.keys() == self._ports[row]:
            return
        self._ports[row] = frozenset(node.ports)
        for mark in self._marks[row] or ():
            self._rows[mark].discard(row)
            if not self._rows[mark]:
                del self._rows[mark]
        marks = marks_of_taken(node.ports)
        self._marks[row] = marks
        self._index(row, marks)

    def prepare(self, kind: Kind) -> frozenset[Port]:
        ports = kind.demand.host_ports
        if not ports:
            return _NONE
        return marks_against((port.protocol, port.port, port.host_ip) for port in ports)

    def mask(self, prepared: frozenset[Port]) -> BoolArray | None:
        taken = [self._rows[mark] for mark in prepared if mark in self._rows]
        if not taken:
            return None
        free = np.ones(len(self._marks), dtype=np.bool_)
        for rows in taken:
            free[np.fromiter(rows, dtype=np.int64, count=len(rows))] = False
        return free

    def concerns(self, prepared: frozenset[Port]) -> bool:
        return bool(prepared)

    def reason(self, prepared: frozenset[Port], row: int) -> str | None:
        marks = self._marks[row]
        return None if not marks or prepared.isdisjoint(marks) else REASON

    def _index(self, row: int, marks: Iterable[Port]) -> None:
        for mark in marks:
            self._rows.setdefault(mark, set()).add(row)
