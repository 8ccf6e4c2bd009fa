"""Filter TaintToleration: a pod is kept off nodes whose taints it does not tolerate.

Taints with effect NoSchedule and NoExecute count; `preferred_nodes` has the other ones. A toleration
is compared as `Toleration.ToleratesTaint` of k8s.io/api/core/v1 does.
"""

from collections.abc import Iterable

import numpy as np

from schemas.messages.nodes import Taint
from schemas.messages.pods import Toleration
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.columns import Interned
from streams.placement.plugin import Filter
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, IntArray

Taints = tuple[Taint, ...]
#: Lists of taints that a pod's tolerations are compared with for one unit of a budget.
_LISTS_PER_UNIT = 40


class Tolerations:
    """The tolerations of a pod as sets, so that a taint costs the same however many there are.

    An empty effect covers every effect, an empty key every key, Exists every value; Equal, which an
    empty operator means too, covers the same value only. An empty key with Equal is no valid pod,
    but has the meaning that these rules give it.
    """

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        self._exists: set[tuple[str, str]] = set()
        """Key and effect."""
        self._equal: set[tuple[str, str, str]] = set()
        """Key, effect and value."""
        for each in tolerations:
            if each.operator == "Exists":
                self._exists.add((each.key, each.effect))
            else:
                self._equal.add((each.key, each.effect, each.value))

    def covers(self, taint: Taint) -> bool:
        """Whether one of the tolerations covers a taint."""
        key, effect, exists, equal = taint.key, taint.effect, self._exists, self._equal
        if ("", "") in exists or (key, "") in exists:
            return True
        if (key, effect) in exists or ("", effect) in exists:
            return True
        value = taint.value
        return bool(equal) and (
            (key, "", value) in equal
            or (key, effect, value) in equal
            or ("", "", value) in equal
            or ("", effect, value) in equal
        )

    def find_untolerated(self, taints: Taints) -> Taint | None:
        """The first taint that is not covered, in the node's order; None if all are.

        Args:
            taints: only those that refuse pods, see `refusing`.
        """
        for taint in taints:
            if not self.covers(taint):
                return taint
        return None


def refusing(taints: Taints) -> Taints:
    """The taints that keep pods off, in their order."""
    return tuple(taint for taint in taints if taint.effect != "PreferNoSchedule")


class TaintToleration(Filter):
    """Refuses nodes with a taint that the pod does not tolerate."""

    name = "TaintToleration"
    watches = Change.STATE

    def __init__(self) -> None:
        self._taints = Interned[Taints](())

    def relayout(self, source: IntArray) -> None:
        self._taints.relayout(source)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        self._taints.put(row, () if node.state is None else refusing(node.state.taints))

    def prepare(self, kind: Kind) -> Tolerations:
        return Tolerations(kind.pod.tolerations)

    def mask(self, prepared: Tolerations) -> BoolArray | None:
        return self._taints.where(lambda taints: prepared.find_untolerated(taints) is None)

    def count_units(self, prepared: Tolerations) -> int:
        return len(self._taints) // _LISTS_PER_UNIT

    def reason(self, prepared: Tolerations, row: int) -> str | None:
        taint = prepared.find_untolerated(self._taints.value(row))
        return None if taint is None else _refusal(taint)

    def reasons(self, prepared: Tolerations, rows: IntArray) -> Iterable[tuple[str, IntArray]]:
        by_reason: dict[str, list[IntArray]] = {}
        for taints, of in self._taints.groups(rows):
            taint = prepared.find_untolerated(taints)
            if taint is not None:
                by_reason.setdefault(_refusal(taint), []).append(of)
        return [(reason, np.concatenate(parts)) for reason, parts in by_reason.items()]


def _refusal(taint: Taint) -> str:
    return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"
