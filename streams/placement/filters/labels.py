"""Requirements on node labels, parsed once per kind of pod.

There are two forms. In, NotIn, Exists and DoesNotExist compare the value with a set of values, in which
None means an absent label. Gt and Lt compare integers. The parser refuses expressions that Kubernetes'
scheduler does not accept (`labels.NewRequirement` in k8s.io/apimachinery/pkg/labels,
`nodeSelectorRequirementsAsFieldSelector` in k8s.io/component-helpers).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from schemas.messages.pods import NodeRequirement
from streams.placement.columns import InternedColumn
from streams.stage.arrays import BoolArray, IntArray

#: Key under which a node's name is stored among its labels. No label can have this key.
NAME_FIELD = "field:metadata.name"

_NAME = r"(?:[A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]"
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_KEY = re.compile(rf"(?:(?=.{{1,253}}/){_DNS_LABEL}(?:\.{_DNS_LABEL})*/)?{_NAME}")
_VALUE = re.compile(rf"(?:{_NAME})?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class LabelColumn(InternedColumn[str | None]):
    """The values of one label; None for nodes without the label."""

    def __init__(self, values: Iterable[str | None] = ()) -> None:
        super().__init__(None, values)
        self._integers: dict[int, IntArray] = {}
        """Results of `get_integers` by default."""

    def put(self, row: int, value: str | None) -> None:
        super().put(row, value)
        self._integers.clear()

    def relayout(self, source: IntArray) -> None:
        super().relayout(source)
        self._integers.clear()

    def get_integers(self, default: int) -> IntArray:
        """Return the values as integers, shape (nodes,); callers must not change the array.

        Values that are not integers become `default`.
        """
        integers = self._integers.get(default)
        if integers is None:
            integers = self._integers[default] = self.map_to_numbers(
                lambda value: default if (number := _parse_integer(value)) is None else number
            )
        return integers


@dataclass(frozen=True, slots=True)
class ValueRequirement:
    """The label's value is one of `values`, or none of them if `negated`; None means an absent label."""

    key: str
    values: frozenset[str | None]
    negated: bool = False

    def matches(self, value: str | None) -> bool:
        return (value in self.values) is not self.negated

    def mask(self, column: LabelColumn) -> BoolArray | None:
        """Return a mask of the nodes that meet the requirement; None if all do."""
        if self.negated and not any(value in column for value in self.values):
            return None
        mask = column.mask_values(self.values)
        return ~mask if self.negated else mask


@dataclass(frozen=True, slots=True)
class BoundRequirement:
    """The label's value is an integer above `bound`, or below it if `above` is false."""

    key: str
    bound: int
    above: bool

    def matches(self, value: str | None) -> bool:
        number = _parse_integer(value)
        if number is None:
            return False
        return number > self.bound if self.above else number < self.bound

    def mask(self, column: LabelColumn) -> BoolArray | None:
        """Return a mask of the nodes that meet the requirement; None if all do."""
        if self.above:
            return column.get_integers(_INT64_MIN) > self.bound
        return column.get_integers(_INT64_MAX) < self.bound


LabelRequirement = ValueRequirement | BoundRequirement


def parse_selector_entry(key: str, value: str) -> LabelRequirement:
    """Parse an entry of a node selector; an invalid key matches no node."""
    return ValueRequirement(key, frozenset((value,) if _KEY.fullmatch(key) else ()))


def parse_label_expression(expression: NodeRequirement) -> LabelRequirement | None:
    """Parse an expression on a label; return None if Kubernetes' scheduler does not accept it."""
    key, values = expression.key, expression.values
    if not _KEY.fullmatch(key) or not all(_VALUE.fullmatch(value) for value in values):
        return None
    match expression.operator:
        case "In" | "NotIn" if values:
            return ValueRequirement(key, frozenset(values), expression.operator == "NotIn")
        case "Exists" | "DoesNotExist" if not values:
            return ValueRequirement(key, frozenset((None,)), expression.operator == "Exists")
        case "Gt" | "Lt" if len(values) == 1:
            bound = _parse_integer(values[0])
            if bound is not None:
                return BoundRequirement(key, bound, expression.operator == "Gt")
    return None


def parse_field_expression(expression: NodeRequirement) -> LabelRequirement | None:
    """Parse an expression on a field; return None unless it compares metadata.name with one name.

    Kubernetes' API server supports no other field of a node.
    """
    if expression.key != "metadata.name" or expression.operator not in ("In", "NotIn"):
        return None
    if len(expression.values) != 1:
        return None
    return ValueRequirement(
        NAME_FIELD, frozenset(expression.values), expression.operator == "NotIn"
    )


def _parse_integer(text: str | None) -> int | None:
    """Parse a 64-bit integer as strconv.ParseInt does: decimal digits with an optional sign."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    # int() refuses texts of thousands of digits, even if most of them are leading zeros.
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > len(str(_INT64_MAX)):
        return None
    number = -int(digits) if text[0] == "-" else int(digits)
    return number if _INT64_MIN <= number <= _INT64_MAX else None
