"""Filter NodeName: a pod that requires a node by name is placed on no other node."""

from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.columns import InternedColumn
from streams.placement.plugin import SingleReasonFilter
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, IntArray


class NodeName(SingleReasonFilter):
    name = "NodeName"
    single_reason = "node(s) didn't match the requested node name"
    watches = Change.STATE

    def __init__(self) -> None:
        self._names = InternedColumn("")

    def relayout(self, source: IntArray) -> None:
        self._names.relayout(source)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        self._names.put(row, node.name)

    def prepare(self, kind: Kind) -> str | None:
        return kind.pod.required_node

    def mask(self, prepared: str | None) -> BoolArray | None:
        return None if prepared is None else self._names.mask_values((prepared,))

    def can_refuse(self, prepared: str | None) -> bool:
        return prepared is not None

    def reason(self, prepared: str | None, row: int) -> str | None:
        return None if prepared is None or self._names.get(row) == prepared else self.single_reason
