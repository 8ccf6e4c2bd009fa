"""Label selectors as Kubernetes writes them.

    matchLabels: {zone: east}
    matchExpressions: [{key: zone, operator: In, values: [east, west]}]

All requirements must be met; a selector without requirements matches everything. kubectl's text form
("zone in (east,west),!spare") gives the same value. The syntax is checked as Kubernetes checks it: an
unknown operator, or In and NotIn without values, is refused.
"""

import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from schemas.messages.pods import matches_labels
from schemas.policy.errors import not_allowed
from schemas.policy.parts import Conflict, Items, PolicyPart

_NAME = r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,61}[A-Za-z0-9])?"
_DOMAIN = r"[a-z0-9]([a-z0-9-]*[a-z0-9])?(\.[a-z0-9]([a-z0-9-]*[a-z0-9])?)*"
_KEY = rf"({_DOMAIN}/)?{_NAME}"
_VALUE = rf"({_NAME})?"
#: Longest selector text.
SELECTOR_TEXT_MAX = 4_096

#: Key of a label: an optional domain, a slash, a name.
LabelKey = Annotated[str, Field(max_length=317, pattern=rf"^{_KEY}$")]
#: Value of a label; it may be empty.
LabelValue = Annotated[str, Field(max_length=63, pattern=rf"^{_VALUE}$")]
Operator = Literal["In", "NotIn", "Exists", "DoesNotExist"]


class LabelRequirement(PolicyPart):
    """One entry of `matchExpressions`."""

    key: LabelKey
    """Key of the label."""
    operator: Operator
    """How the label is compared."""
    values: Items[LabelValue] = ()
    """Values for In and NotIn."""

    def conflicts(self) -> Iterable[Conflict]:
        needs_values = self.operator in ("In", "NotIn")
        if needs_values and not self.values:
            message = f"{self.operator} needs at least one value"
            yield Conflict(("values",), message, ("operator", "values"))
        if not needs_values and self.values:
            message = f"{self.operator} takes no values; found {len(self.values)}"
            yield Conflict(("values",), message, ("operator", "values"))


class LabelSelector(PolicyPart):
    """Selects objects by their labels."""

    match_labels: Annotated[dict[LabelKey, LabelValue], Field(max_length=256)] = Field(
        default_factory=dict
    )
    """Labels and the values that they must have."""
    match_expressions: Items[LabelRequirement] = ()
    """Further requirements."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        return matches_labels(self, labels)


_REQUIREMENT = re.compile(
    rf"""\s*(?:
        (?P<absent>!)\s*(?P<absent_key>{_KEY})
      | (?P<set_key>{_KEY})\s+(?P<set_operator>in|notin)\s*\((?P<members>[^()]*)\)
      | (?P<equal_key>{_KEY})\s*(?P<equal>==|=|!=)\s*(?P<value>{_VALUE})
      | (?P<key>{_KEY})
    )\s*(?:,|$)""",
    re.VERBOSE,
)


@lru_cache(maxsize=64)
def parse_selector(text: str) -> LabelSelector:
    """Return the selector of a text in kubectl's form; empty text matches everything.

    Raises `ValueError` for invalid text. Comparisons by > and < are not supported.
    """
    requirements: list[dict[str, object]] = []
    position = 0
    text = text.strip()
    while position < len(text):
        match = _REQUIREMENT.match(text, position)
        if match is None or len(text) > SELECTOR_TEXT_MAX:
            raise ValueError(
                f"{text[position : position + 40]!r} is not a label requirement; expected "
                "key=value, key!=value, key in (a,b), key notin (a,b), key or !key, separated by commas"
            )
        requirements.append(_requirement(match))
        position = match.end()
    if text.endswith(","):
        raise ValueError("a label requirement is expected after the last comma")
    return LabelSelector.model_validate({"matchExpressions": requirements})


def _requirement(match: "re.Match[str]") -> dict[str, object]:
    if match["absent"]:
        return {"key": match["absent_key"], "operator": "DoesNotExist"}
    if match["set_key"]:
        operator = "In" if match["set_operator"] == "in" else "NotIn"
        values = [member.strip() for member in match["members"].split(",")]
        return {"key": match["set_key"], "operator": operator, "values": values}
    if match["equal_key"]:
        operator = "NotIn" if match["equal"] == "!=" else "In"
        return {"key": match["equal_key"], "operator": operator, "values": [match["value"]]}
    return {"key": match["key"], "operator": "Exists"}


def _check_selector_text(text: str) -> str:
    try:
        parse_selector(text)
    except ValueError:
        raise not_allowed("a label selector such as 'zone in (east,west),!spare'") from None
    return text


#: A label selector as text, in the form that `parse_selector` reads.
SelectorText = Annotated[
    str, Field(max_length=SELECTOR_TEXT_MAX), AfterValidator(_check_selector_text)
]


class Namespaces(PolicyPart):
    """Namespaces that are included or excluded; only one of the two lists may be given."""

    include: Items[Annotated[str, Field(min_length=1, max_length=63)]] = ()
    """Only these namespaces."""
    exclude: Items[Annotated[str, Field(min_length=1, max_length=63)]] = ()
    """All namespaces except these."""

    def conflicts(self) -> Iterable[Conflict]:
        if self.include and self.exclude:
            message = "include and exclude are both given; allowed is one of them"
            yield Conflict(("exclude",), message, ("include", "exclude"))

    def admits(self, namespace: str) -> bool:
        if self.include:
            return namespace in self.include
        return namespace not in self.exclude
