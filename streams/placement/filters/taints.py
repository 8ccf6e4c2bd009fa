"""Filters of taints: refuse nodes with a taint that the pod does not tolerate.

TaintToleration refuses effects NoSchedule and NoExecute; PreferNoSchedule refuses the effect of its name.
Tolerations match taints as in `Toleration.ToleratesTaint` of k8s.io/api/core/v1.
"""

from collections.abc import Iterable

import numpy as np

from schemas.messages.nodes import Taint
from schemas.messages.pods import Toleration
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.columns import InternedColumn
from streams.placement.plugin import Filter, SingleReasonFilter
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, IntArray

Taints = tuple[Taint, ...]
#: Taints of nodes that are about to be removed. Tolerations of these taints do not count.
_REMOVAL_TAINTS = frozenset(
    {
        "DeletionCandidateOfClusterAutoscaler",
        "ToBeDeletedByClusterAutoscaler",
        "karpenter.sh/disrupted",
    }
)
#: Number of distinct lists of taints, and of taints, whose check costs one unit of a budget.
_LISTS_PER_UNIT, _TAINTS_PER_UNIT = 40, 200


class Tolerations:
    """The tolerations of a pod as sets: the cost of a check does not depend on the number of tolerations.

    An empty effect covers every effect, an empty key covers every key, and Exists covers every value. Equal
    covers an equal value only. An empty operator means Equal.
    """

    def __init__(self, tolerations: Iterable[Toleration]) -> None:
        self._exists: set[tuple[str, str]] = set()
        """Keys and effects of tolerations with operator Exists."""
        self._equal: set[tuple[str, str, str]] = set()
        """Keys, effects and values of the other tolerations."""
        for toleration in tolerations:
            if toleration.operator == "Exists":
                self._exists.add((toleration.key, toleration.effect))
            else:
                self._equal.add((toleration.key, toleration.effect, toleration.value))

    def covers(self, taint: Taint) -> bool:
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
        """Return the first untolerated taint of a result of `select_refusing`; None if there is none."""
        exists = self._exists
        for taint in taints:
            # For most taints there is a toleration of the key, so check that first.
            if (taint.key, "") not in exists and not self.covers(taint):
                return taint
        return None


def select_refusing(taints: Taints) -> Taints:
    """Return the taints that refuse pods, in their order."""
    return tuple(taint for taint in taints if taint.effect != "PreferNoSchedule")


class TaintToleration(Filter):
    name = "TaintToleration"
    watches = Change.STATE

    def __init__(self) -> None:
        self._taints = InternedColumn[Taints](())
        self._units: int | None = None
        """Units for all distinct lists; None means that they have to be counted."""
        self._untolerated: dict[int, Taint | None] = {}
        """The first taint that `_tolerations` lack, by `id` of the list of taints."""
        self._tolerations: Tolerations | None = None
        """Tolerations of the last call of `mask`; None after a change of nodes."""

    def relayout(self, source: IntArray) -> None:
        self._taints.relayout(source)
        self._units = self._tolerations = None

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        self._taints.put(row, () if node.state is None else select_refusing(node.state.taints))
        self._units = self._tolerations = None

    def prepare(self, kind: Kind) -> Tolerations:
        return Tolerations(kind.pod.tolerations)

    def mask(self, prepared: Tolerations) -> BoolArray | None:
        find = prepared.find_untolerated
        self._tolerations = prepared
        self._untolerated = {id(taints): find(taints) for taints in self._taints}
        return self._taints.mask_passing(lambda taints: self._untolerated[id(taints)] is None)

    def count_units(self, prepared: Tolerations) -> int:
        if self._units is None:
            taints = sum(map(len, self._taints))
            self._units = len(self._taints) // _LISTS_PER_UNIT + taints // _TAINTS_PER_UNIT
        return self._units

    def reason(self, prepared: Tolerations, row: int) -> str | None:
        taint = prepared.find_untolerated(self._taints.get(row))
        return None if taint is None else _format_reason(taint)

    def reasons(self, prepared: Tolerations, rows: IntArray) -> Iterable[tuple[str, IntArray]]:
        by_reason: dict[str, list[IntArray]] = {}
        for taints, rows_with_taints in self._taints.group_rows(rows):
            if self._tolerations is prepared:
                taint = self._untolerated[id(taints)]
            else:
                taint = prepared.find_untolerated(taints)
            if taint is not None:
                by_reason.setdefault(_format_reason(taint), []).append(rows_with_taints)
        return [(reason, np.concatenate(parts)) for reason, parts in by_reason.items()]


def _format_reason(taint: Taint) -> str:
    return f"node(s) had untolerated taint {{{taint.key}: {taint.value}}}"


def select_avoided(taints: Iterable[Taint]) -> Taints:
    """Return the taints for which other nodes are preferred."""
    return tuple(
        taint
        for taint in taints
        if taint.effect == "PreferNoSchedule" or taint.key in _REMOVAL_TAINTS
    )


class PreferNoSchedule(SingleReasonFilter):
    """Refuses nodes with an untolerated PreferNoSchedule taint, or that an autoscaler is about to remove.

    If no other node accepts a pod, the placer ranks without this filter. Pods are not moved to such nodes.
    Policies cannot name this filter: the registry adds it to TaintToleration unless `compat` is koordinator.
    """

    name = "PreferNoSchedule"
    single_reason = "node(s) had an untolerated PreferNoSchedule taint, or are about to be removed"
    watches = Change.STATE

    def __init__(self) -> None:
        self._taints = InternedColumn[Taints](())

    def relayout(self, source: IntArray) -> None:
        self._taints.relayout(source)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        self._taints.put(row, () if node.state is None else select_avoided(node.state.taints))

    def prepare(self, kind: Kind) -> Tolerations:
        return Tolerations(kind.pod.tolerations)

    def mask(self, prepared: Tolerations) -> BoolArray | None:
        return self._taints.mask_passing(lambda taints: not _is_avoided(taints, prepared))

    def reason(self, prepared: Tolerations, row: int) -> str | None:
        return self.single_reason if _is_avoided(self._taints.get(row), prepared) else None


def _is_avoided(taints: Taints, tolerations: Tolerations) -> bool:
    return any(taint.key in _REMOVAL_TAINTS or not tolerations.covers(taint) for taint in taints)
