"""Requirements on labels, read from a pod once and then asked of nodes.

Two forms are enough. In, NotIn, Exists and DoesNotExist ask whether the value is one of some, where
an absent label is a value too; Gt and Lt compare integers. Expressions that Kubernetes' scheduler
would not accept are found when they are read (`labels.NewRequirement` in
k8s.io/apimachinery/pkg/labels, `nodeSelectorRequirementsAsFieldSelector` in
k8s.io/component-helpers).
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from schemas.messages.pods import NodeRequirement
from streams.placement.columns import Interned
from streams.stage.arrays import BoolArray, IntArray

#: The field metadata.name among the labels, under a key that no expression on labels can ask for.
NAME_FIELD = "field:metadata.name"

_NAME = r"(?:[A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]"
_DNS_LABEL = r"[a-z0-9](?:[-a-z0-9]*[a-z0-9])?"
_KEY = re.compile(rf"(?:(?=.{{1,253}}/){_DNS_LABEL}(?:\.{_DNS_LABEL})*/)?{_NAME}")
_VALUE = re.compile(rf"(?:{_NAME})?")
_INTEGER = re.compile(r"[+-]?[0-9]+")
_INT64_MIN, _INT64_MAX = -(2**63), 2**63 - 1


class LabelColumn(Interned[str | None]):
    """The values of one label; None: a node does not have it."""

    def __init__(self, values: Iterable[str | None] = ()) -> None:
        super().__init__(None, values)
        self._integers: dict[int, IntArray] = {}
        """Integer of each row, by what stands for a value that is none; shape (nodes,)."""

    def put(self, row: int, value: str | None) -> None:
        """Give one row a value."""
        super().put(row, value)
        self._integers.clear()

    def relayout(self, source: IntArray) -> None:
        super().relayout(source)
        self._integers.clear()

    def integers(self, otherwise: int) -> IntArray:
        """The value of each row as an integer, parsed once per distinct value.

        Args:
            otherwise: what stands for a value that is no integer.

        Returns:
            Shape (nodes,); it is kept, so nobody may change it.
        """
        found = self._integers.get(otherwise)
        if found is None:
            found = self._integers[otherwise] = self.map(
                lambda value: otherwise if (number := _integer(value)) is None else number
            )
        return found


@dataclass(frozen=True, slots=True)
class OneOf:
    """The label's value is one of `values`, or none of them if `negated`; None: no such label."""

    key: str
    values: frozenset[str | None]
    negated: bool = False

    def holds(self, value: str | None) -> bool:
        """Whether a label's value meets the requirement."""
        return (value in self.values) is not self.negated

    def rows(self, column: LabelColumn) -> BoolArray | None:
        """The rows of a label's column that meet it; None if all do."""
        if self.negated and not any(value in column for value in self.values):
            return None
        holding = column.rows_with(self.values)
        return ~holding if self.negated else holding


@dataclass(frozen=True, slots=True)
class Compares:
    """The label's value is an integer above `bound`, or, if not `above`, below it."""

    key: str
    bound: int
    above: bool

    def holds(self, value: str | None) -> bool:
        """Whether a label's value meets the requirement; what is no integer does not."""
        number = _integer(value)
        if number is None:
            return False
        return number > self.bound if self.above else number < self.bound

    def rows(self, column: LabelColumn) -> BoolArray | None:
        """The rows of a label's column that meet it; None if all do."""
        if self.above:
            return column.integers(_INT64_MIN) > self.bound
        return column.integers(_INT64_MAX) < self.bound


LabelRequirement = OneOf | Compares


def equals(key: str, value: str) -> LabelRequirement:
    """An entry of a node selector; under a key that no label can have it holds nowhere."""
    return OneOf(key, frozenset((value,) if _KEY.fullmatch(key) else ()))


def on_label(expression: NodeRequirement) -> LabelRequirement | None:
    """Read an expression on a label; None if Kubernetes' scheduler would not accept it."""
    key, values = expression.key, expression.values
    if not _KEY.fullmatch(key) or not all(_VALUE.fullmatch(value) for value in values):
        return None
    match expression.operator:
        case "In" | "NotIn":
            return OneOf(key, frozenset(values), expression.operator == "NotIn") if values else None
        case "Exists" | "DoesNotExist":
            absent = frozenset((None,))
            return None if values else OneOf(key, absent, expression.operator == "Exists")
        case "Gt" | "Lt":
            bound = _integer(values[0]) if len(values) == 1 else None
            return None if bound is None else Compares(key, bound, expression.operator == "Gt")


def on_field(expression: NodeRequirement) -> LabelRequirement | None:
    """Read an expression on a field; None unless it compares metadata.name with one name.

    Kubernetes' API server knows no other field of a node.
    """
    if expression.key != "metadata.name" or expression.operator not in ("In", "NotIn"):
        return None
    if len(expression.values) != 1:
        return None
    return OneOf(NAME_FIELD, frozenset(expression.values), expression.operator == "NotIn")


def _integer(text: str | None) -> int | None:
    """As strconv.ParseInt reads it: decimal digits with an optional sign, within 64 bits."""
    if text is None or not _INTEGER.fullmatch(text):
        return None
    # Leading zeros are no size, and int() refuses texts of thousands of digits.
    digits = text.lstrip("+-").lstrip("0") or "0"
    if len(digits) > len(str(_INT64_MAX)):
        return None
    number = -int(digits) if text[0] == "-" else int(digits)
    return number if _INT64_MIN <= number <= _INT64_MAX else None
