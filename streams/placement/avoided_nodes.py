"""Filter PreferNoSchedule: nodes on which pods are placed last, and to which no pod is moved.

These are nodes with a taint of effect PreferNoSchedule that the pod does not tolerate, and nodes that
an autoscaler is about to remove. If no other node accepts a pod, the placer ranks without this filter.
Policies cannot name it: the registry adds it to TaintToleration unless `compat` is koordinator.
"""

from collections.abc import Iterable

from schemas.messages.nodes import Taint
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.columns import Interned
from streams.placement.filters.taints import Tolerations
from streams.placement.plugin import SingleReasonFilter
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, IntArray

REASON = "node(s) had a taint that asks for other nodes"
#: Taints of nodes that are about to be removed. Tolerations of these taints do not count.
LEAVING = frozenset(
    {
        "DeletionCandidateOfClusterAutoscaler",
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
    }
)


def select_avoided(taints: Iterable[Taint]) -> tuple[Taint, ...]:
    """Return the taints that make other nodes preferable."""
    return tuple(
        taint for taint in taints if taint.effect == "PreferNoSchedule" or taint.key in LEAVING
    )


class PreferNoSchedule(SingleReasonFilter):
    name = "PreferNoSchedule"
    single_reason = REASON
    watches = Change.STATE

    def __init__(self) -> None:
        self._taints = Interned[tuple[Taint, ...]](())

    def relayout(self, source: IntArray) -> None:
        self._taints.relayout(source)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        self._taints.put(row, () if node.state is None else select_avoided(node.state.taints))

    def prepare(self, kind: Kind) -> Tolerations:
        return Tolerations(kind.pod.tolerations)

    def mask(self, prepared: Tolerations) -> BoolArray | None:
        return self._taints.where(lambda taints: not _is_avoided(taints, prepared))

    def reason(self, prepared: Tolerations, row: int) -> str | None:
        return REASON if _is_avoided(self._taints.value(row), prepared) else None


def _is_avoided(taints: tuple[Taint, ...], tolerations: Tolerations) -> bool:
    return any(taint.key in LEAVING or not tolerations.covers(taint) for taint in taints)
