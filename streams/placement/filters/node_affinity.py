"""Filter NodeAffinity: node selector and required node affinity.

Every entry of the pod's node selector must match a label of the node. At least one term of the required
node affinity must match, with all its expressions on labels and fields. A term with a malformed
expression, an empty term and an empty list of terms match no node, as in Kubernetes' scheduler
(`NewNodeSelector` and `GetRequiredNodeAffinity` in k8s.io/component-helpers).

Each label that pods name has a column of interned values, so a requirement is evaluated once per
distinct value. The name of a node is stored like a label.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from schemas.messages.pods import NodeSelectorTerm, Pod
from streams.inventory.node import Node
from streams.inventory.node_index import Change
from streams.placement.columns import LazyColumns, NameCounts
from streams.placement.filters.labels import (
    NAME_FIELD,
    LabelColumn,
    LabelRequirement,
    parse_field_expression,
    parse_label_expression,
    parse_selector_entry,
)
from streams.placement.plugin import SingleReasonFilter
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, IntArray

#: Expressions that are evaluated on all nodes for one unit of a budget.
_EXPRESSIONS_PER_UNIT = 5
#: Most label columns that are kept.
COLUMNS_MAX = 128

Labels = Mapping[str, str]
Requirements = tuple[LabelRequirement, ...]


@dataclass(frozen=True, slots=True)
class RequiredAffinity:
    """A pod's requirements on the labels and the name of its node."""

    selector: Requirements
    """Requirements that must all hold."""
    terms: tuple[Requirements, ...] | None
    """Of at least one term, all requirements must hold. None without required node affinity."""

    def matches(self, labels: Labels) -> bool:
        """Tell whether a node matches; `labels` is the result of `build_labels`."""
        return _match_all(self.selector, labels) and (
            self.terms is None or any(_match_all(term, labels) for term in self.terms)
        )


def parse_required_affinity(pod: Pod) -> RequiredAffinity | None:
    """Parse a pod's node selector and required node affinity; return None if it has neither."""
    if not pod.node_selector and pod.required_node_affinity is None:
        return None
    terms = None
    if pod.required_node_affinity is not None:
        parsed = map(_parse_term, pod.required_node_affinity)
        terms = tuple(term for term in parsed if term is not None)
    return RequiredAffinity(
        tuple(parse_selector_entry(*entry) for entry in pod.node_selector.items()), terms
    )


def build_labels(node: Node) -> dict[str, str]:
    """Return the labels of a node, with its name under `NAME_FIELD`."""
    labels = {} if node.state is None else node.state.labels
    return {**labels, NAME_FIELD: node.name}


class NodeAffinity(SingleReasonFilter):
    name = "NodeAffinity"
    single_reason = "node(s) didn't match Pod's node affinity/selector"
    watches = Change.STATE
    columns = ("_labels",)

    def __init__(self) -> None:
        self._labels: list[dict[str, str] | None] = []
        """Labels by row; None for a new row."""
        self._columns = LazyColumns[LabelColumn](COLUMNS_MAX)
        self._keys = NameCounts()
        """Number of nodes with each label."""

    def relayout(self, source: IntArray) -> None:
        self._keys.relayout(self._labels, source)
        super().relayout(source)
        for column in self._columns.values():
            column.relayout(source)

    def refresh(self, row: int, node: Node, now_ms: int) -> None:
        labels = build_labels(node)
        if labels == self._labels[row]:
            return
        self._keys.replace(self._labels[row], labels)
        self._labels[row] = labels
        for key, column in self._columns.items():
            column.put(row, labels.get(key))

    def prepare(self, kind: Kind) -> RequiredAffinity | None:
        return parse_required_affinity(kind.pod)

    def mask(self, prepared: RequiredAffinity | None) -> BoolArray | None:
        if prepared is None:
            return None
        selected = self._mask_all(prepared.selector)
        if prepared.terms is None:
            return selected
        matched = self._mask_any(prepared.terms)
        return selected if matched is None else _intersect(selected, matched)

    def count_units(self, prepared: RequiredAffinity | None) -> int:
        terms = None if prepared is None else prepared.terms
        return sum(map(len, terms or ())) // _EXPRESSIONS_PER_UNIT

    def can_refuse(self, prepared: RequiredAffinity | None) -> bool:
        return prepared is not None

    def reason(self, prepared: RequiredAffinity | None, row: int) -> str | None:
        if prepared is None or prepared.matches(self._labels[row] or {}):
            return None
        return self.single_reason

    def _mask_all(self, requirements: Requirements) -> BoolArray | None:
        """Return a mask of the nodes that meet all requirements; None if every node does."""
        mask: BoolArray | None = None
        for requirement in requirements:
            if requirement.key not in self._keys:
                # No node has the label, so no column is needed.
                if not requirement.matches(None):
                    return np.zeros(len(self._labels), dtype=np.bool_)
                continue
            rows = requirement.mask(self._columns.get_or_build(requirement.key, self._build))
            if rows is not None:
                mask = _intersect(mask, rows)
        return mask

    def _mask_any(self, terms: Iterable[Requirements]) -> BoolArray | None:
        """Return a mask of the nodes that match at least one term; None if every node does."""
        mask = np.zeros(len(self._labels), dtype=np.bool_)
        for term in terms:
            rows = self._mask_all(term)
            if rows is None:
                return None
            mask |= rows
        return mask

    def _build(self, key: str) -> LabelColumn:
        return LabelColumn(None if labels is None else labels.get(key) for labels in self._labels)


def _parse_term(term: NodeSelectorTerm) -> Requirements | None:
    """Parse a term; return None if it cannot match any node."""
    parsed = [
        *map(parse_label_expression, term.match_expressions),
        *map(parse_field_expression, term.match_fields),
    ]
    requirements = tuple(requirement for requirement in parsed if requirement is not None)
    return requirements if requirements and len(requirements) == len(parsed) else None


def _match_all(requirements: Requirements, labels: Labels) -> bool:
    return all(requirement.matches(labels.get(requirement.key)) for requirement in requirements)


def _intersect(mask: BoolArray | None, other_mask: BoolArray) -> BoolArray:
    if mask is None:
        return other_mask
    mask &= other_mask
    return mask
