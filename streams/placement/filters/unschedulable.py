"""Filter NodeUnschedulable: cordoned and drained nodes get no new pods.

Kubernetes also taints a cordoned node. Pods that tolerate this taint are not refused there. A drained node
refuses them too, because the drain would evict them again; only pods of a DaemonSet stay.
"""

from schemas.messages.nodes import Taint
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.columns import InternedColumn
from streams.placement.filters.taints import Tolerations
from streams.placement.plugin import SingleReasonFilter
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, IntArray

_CORDON = Taint(key="node.kubernetes.io/unschedulable", effect="NoSchedule")
_OPEN, _CORDONED, _DRAINED = range(3)


class NodeUnschedulable(SingleReasonFilter):
    name = "NodeUnschedulable"
    single_reason = "node(s) were unschedulable"
    watches = Change.STATE

    def __init__(self) -> None:
        self._closed = InternedColumn(default=_OPEN)

    def relayout(self, source: IntArray) -> None:
        self._closed.relayout(source)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        unschedulable = node.state is not None and node.state.unschedulable
        self._closed.put(row, _DRAINED if node.cordoned else int(unschedulable))

    def prepare(self, kind: Kind) -> int:
        """Return the highest value of nodes that accept the pods."""
        if not Tolerations(kind.pod.tolerations).covers(_CORDON):
            return _OPEN
        return _DRAINED if kind.daemon else _CORDONED

    def mask(self, prepared: int) -> BoolArray | None:
        return self._closed.mask_passing(lambda closed: closed <= prepared)

    def can_refuse(self, prepared: int) -> bool:
        return prepared != _DRAINED

    def reason(self, prepared: int, row: int) -> str | None:
        return self.single_reason if self._closed.get(row) > prepared else None
