"""Filter PreferNoSchedule: nodes on which pods are placed last, and to which none is moved.

These are nodes with a taint of effect PreferNoSchedule that the pod does not tolerate, and nodes that
an autoscaler is about to remove. It gives way: where no other node takes a pod, the placer ranks
without it. It is no plugin of policies; the placer adds it to TaintToleration in our own mode.
"""

from collections.abc import Iterable

from schemas.messages.nodes import Taint
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.columns import Interned
from streams.placement.filters.taints import Tolerations
from streams.placement.plugin import OneReason
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, IntArray

REASON = "node(s) had a taint that asks for other nodes"
#: Taints of nodes that are about to be removed: no toleration makes them better places.
LEAVING = frozenset(
    {
        "DeletionCandidateOfClusterAutoscaler",
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
    }
)


def avoiding(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """The taints of a node because of which other nodes are better."""
    return tuple(
        taint for taint in taints if taint.effect == "PreferNoSchedule" or taint.key in LEAVING
    )


class PreferNoSchedule(OneReason):
    """Refuses nodes that pods should avoid."""

    name = "PreferNoSchedule"
    the_reason = REASON
    watches = Change.STATE

    def __init__(self) -> None:
        self._taints = Interned[tuple[Taint, ...]](())

    def relayout(self, source: IntArray) -> None:
        """Move rows."""
        self._taints.relayout(source)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        """Take over the node's taints."""
        self._taints.put(row, () if node.state is None else avoiding(node.state.taints))

    def prepare(self, kind: Kind) -> Tolerations:
        """The tolerations of the kind."""
        return Tolerations(kind.pod.tolerations)

    def mask(self, prepared: Tolerations) -> BoolArray | None:
        """Which nodes need not be avoided; None if none need be."""
        return self._taints.where(lambda taints: not _is_avoided(taints, prepared))

    def reason(self, prepared: Tolerations, row: int) -> str | None:
        """Why this node is refused; None if it passes."""
        return REASON if _is_avoided(self._taints.value(row), prepared) else None


def _is_avoided(taints: tuple[Taint, ...], tolerations: Tolerations) -> bool:
    return any(taint.key in LEAVING or not tolerations.covers(taint) for taint in taints)
