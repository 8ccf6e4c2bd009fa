"""Filter NodeUnschedulable: cordoned nodes get no new pods.

Kubernetes also taints a cordoned node. Pods that tolerate this taint, such as pods of a DaemonSet, are not
refused.
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


class NodeUnschedulable(SingleReasonFilter):
    name = "NodeUnschedulable"
    single_reason = "node(s) were unschedulable"
    watches = Change.STATE

    def __init__(self) -> None:
        self._cordoned = InternedColumn(default=False)

    def relayout(self, source: IntArray) -> None:
        self._cordoned.relayout(source)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        unschedulable = node.state is not None and node.state.unschedulable
        self._cordoned.put(row, unschedulable or node.cordoned)

    def prepare(self, kind: Kind) -> bool:
        return Tolerations(kind.pod.tolerations).covers(_CORDON)

    def mask(self, prepared: bool) -> BoolArray | None:
        if prepared or True not in self._cordoned:
            return None
        return self._cordoned.mask_values((False,))

    def can_refuse(self, prepared: bool) -> bool:
        return not prepared

    def reason(self, prepared: bool, row: int) -> str | None:
        return self.single_reason if not prepared and self._cordoned.get(row) else None
