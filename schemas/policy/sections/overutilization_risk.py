"""`overutilizationRisk`: arguments of the score OverutilizationRisk.

The cost of a node is the probability that it becomes hot, plus its expected usage beyond the hot
share; the usage of pods is assumed to be normally distributed. A pod's mean and variance cover its
lifetime. While a pod has few measured minutes, the figures of the whole cluster count as well.
"""

from collections.abc import Iterable
from typing import Annotated

from pydantic import Field, field_validator

from schemas.base.message import ResourceName
from schemas.policy.parts import (
    Conflict,
    Items,
    PolicyPart,
    PositivePercent,
    find_repeated,
    int_range,
)

#: Most resources of the score: every node has six sums per resource.
RISK_RESOURCES_MAX = 8
#: Default share of a resource above which a node is hot.
_HOT_PERCENT = {"cpu": 75, "memory": 80}
_HOT_PERCENT_OTHERS = 80


class RiskResource(PolicyPart):
    """A resource that the score considers."""

    name: ResourceName
    """Name of the resource."""
    hot_percent: PositivePercent | None = None
    """Percentage of a node above which it is hot; none: 75 for cpu, 80 for other resources."""

    @property
    def percent(self) -> int:
        """Percentage of the capacity from which a node is hot."""
        return self.hot_percent or _HOT_PERCENT.get(self.name, _HOT_PERCENT_OTHERS)

    @property
    def hot_share(self) -> float:
        """Share of the capacity from which a node is hot."""
        return self.percent / 100


class OverutilizationRiskArgs(PolicyPart):
    """Arguments of the score by the risk of overutilization."""

    resources: Annotated[Items[RiskResource], Field(max_length=RISK_RESOURCES_MAX)] = Field(
        (), validate_default=True
    )
    """Resources of which a node may be overutilized."""
    recent_minutes: Annotated[int, int_range(0, 1_440)] = 30
    """Minutes after which recent usage beyond a pod's lifetime mean is forgotten; 0: only the
    lifetime mean counts."""

    @field_validator("resources")
    @classmethod
    def _fill_resources(cls, resources: tuple[RiskResource, ...]) -> tuple[RiskResource, ...]:
        # Sorted by name, so that the sums stay valid when only the order of resources changes.
        by_name = tuple(sorted(resources, key=lambda resource: resource.name))
        return by_name or (RiskResource(name="cpu"), RiskResource(name="memory"))

    def conflicts(self) -> Iterable[Conflict]:
        return find_repeated(self, "resources")
