"""Filter NodeAffinity: node selector and required node affinity.

Every entry of the pod's node selector must match a label of the node. At least one term of the required
node affinity must match, with all its expressions on labels and fields. A term with a malformed
expression, an empty term and an empty list of terms match no node, as in Kubernetes' scheduler
(`NewNodeSelector` and `GetRequiredNodeAffinity` in k8s.io/component-helpers).

Each label that pods name has a column of interned values, so a requirement is evaluated once per
distinct value. The name of a node is stored as one more label.
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
    equals,
    parse_field_expression,
    parse_label_expression,
)
from streams.placement.plugin import SingleReasonFilter
from streams.pods.kind import Kind
from streams.stage.arrays import BoolArray, IntArray

REASON = "node(s) didn't match Pod's node affinity/selector"

#: Expressions that are evaluated on all nodes for one unit of a budget.
_EXPRESSIONS_PER_UNIT = 5
#: Most label columns that are kept.
COLUMNS_MAX = 128

Labels = Mapping[str, str]
Term = tuple[LabelRequirement, ...]


@dataclass(frozen=True, slots=True)
class RequiredAffinity:
    """What a pod requires of its node's labels and name."""

    selector: Term
    """All of these requirements must hold."""
    terms: tuple[Term, ...] | None
    """All requirements of at least one term must hold; None without required node affinity."""

    def matches(self, labels: Labels) -> bool:
        """Tell whether a node matches; `labels` are those of `labels_of`."""
        return _hold(self.selector, labels) and (
            self.terms is None or any(_hold(term, labels) for term in self.terms)
        )


def required_affinity(pod: Pod) -> RequiredAffinity | None:
    """Parse a pod's node selector and required node affinity; return None if it has neither."""
    if not pod.node_selector and pod.required_node_affinity is None:
        return None
    terms = None
    if pod.required_node_affinity is not None:
        read = map(_term, pod.required_node_affinity)
        terms = tuple(term for term in read if term is not None)
    return RequiredAffinity(tuple(equals(*entry) for entry in pod.node_selector.items()), terms)


def labels_of(node: Node) -> dict[str, str]:
    """Return the labels of a node, with its name under `NAME_FIELD`."""
    labels = {} if node.state is None else node.state.labels
    return {**labels, NAME_FIELD: node.name}


class NodeAffinity(SingleReasonFilter):
    name = "NodeAffinity"
    single_reason = REASON
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
        labels = labels_of(node)
        if labels == self._labels[row]:
            return
        self._keys.replace(self._labels[row], labels)
        self._labels[row] = labels
        for key, column in self._columns.items():
            column.put(row, labels.get(key))

    def prepare(self, kind: Kind) -> RequiredAffinity | None:
        return required_affinity(kind.pod)

    def mask(self, prepared: RequiredAffinity | None) -> BoolArray | None:
        if prepared is None:
            return None
        selected = self._all_of(prepared.selector)
        if prepared.terms is None:
            return selected
        matched = self._any_of(prepared.terms)
        return selected if matched is None else _both(selected, matched)

    def count_units(self, prepared: RequiredAffinity | None) -> int:
        terms = None if prepared is None else prepared.terms
        return sum(map(len, terms or ())) // _EXPRESSIONS_PER_UNIT

    def can_refuse(self, prepared: RequiredAffinity | None) -> bool:
        return prepared is not None

    def reason(self, prepared: RequiredAffinity | None, row: int) -> str | None:
        if prepared is None or prepared.matches(self._labels[row] or {}):
            return None
        return REASON

    def _all_of(self, requirements: Term) -> BoolArray | None:
        """Return a mask of the nodes that meet all requirements; None if every node does."""
        meeting: BoolArray | None = None
        for requirement in requirements:
            if requirement.key not in self._keys:
                # No node has the label, so no column is needed.
                if not requirement.holds(None):
                    return np.zeros(len(self._labels), dtype=np.bool_)
                continue
            rows = requirement.rows(self._columns.get_or_build(requirement.key, self._build))
            if rows is not None:
                meeting = _both(meeting, rows)
        return meeting

    def _any_of(self, terms: Iterable[Term]) -> BoolArray | None:
        """Return a mask of the nodes that match at least one term; None if every node does."""
        matching = np.zeros(len(self._labels), dtype=np.bool_)
        for term in terms:
            rows = self._all_of(term)
            if rows is None:
                return None
            matching |= rows
        return matching

    def _build(self, key: str) -> LabelColumn:
        return LabelColumn(None if labels is None else labels.get(key) for labels in self._labels)


def _term(term: NodeSelectorTerm) -> Term | None:
    """Parse a term; return None if it can match no node."""
    requirements: list[LabelRequirement] = []
    for read, expressions in (
        (parse_label_expression, term.match_expressions),
        (parse_field_expression, term.match_fields),
    ):
        for expression in expressions:
            requirement = read(expression)
            if requirement is None:
                return None
            requirements.append(requirement)
    return tuple(requirements) or None


def _hold(requirements: Term, labels: Labels) -> bool:
    return all(requirement.holds(labels.get(requirement.key)) for requirement in requirements)


def _both(mask: BoolArray | None, other_mask: BoolArray) -> BoolArray:
    if mask is None:
        return other_mask
    mask &= other_mask
    return mask
