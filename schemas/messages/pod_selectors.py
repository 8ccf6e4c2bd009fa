"""Label selectors of pods: of disruption budgets and of required anti-affinity."""

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from schemas.base.message import Part, StringMap

_Text = Annotated[str, Field(max_length=512)]


class SelectorRequirement(Part):
    """One expression of a label selector."""

    key: _Text
    """Name of the label."""
    operator: Literal["In", "NotIn", "Exists", "DoesNotExist"]
    """How to compare the label's value with `values`."""
    values: Annotated[tuple[_Text, ...], Field(max_length=1024, fail_fast=True)] = ()
    """Empty for Exists and DoesNotExist."""


class PodSelector(Part):
    """Selects pods by their labels; without requirements, all pods."""

    match_labels: StringMap = Field(default_factory=dict)
    """Labels that a pod must have."""
    match_expressions: Annotated[
        tuple[SelectorRequirement, ...], Field(max_length=256, fail_fast=True)
    ] = ()
    """All expressions must be true."""

    def matches(self, labels: Mapping[str, str]) -> bool:
        """Tell whether the labels meet all requirements; NotIn is true if the label is missing."""
        return all(labels.get(key) == value for key, value in self.match_labels.items()) and all(
            _is_met(requirement, labels.get(requirement.key))
            for requirement in self.match_expressions
        )


def _is_met(requirement: SelectorRequirement, value: str | None) -> bool:
    if requirement.operator == "In":
        return value is not None and value in requirement.values
    if requirement.operator == "NotIn":
        return value is None or value not in requirement.values
    return (value is not None) == (requirement.operator == "Exists")
