"""`resourceLimits`: arguments of the score NodeResourceLimitsAware.

A node scores by how much of it the limits of its pods leave free. A pod without a limit on a
resource counts by its request, or 0 without one; `defaultLimit` says otherwise: a quantity, or all
that the node has.
"""

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field, field_validator
from pydantic_core import PydanticCustomError

from schemas.base.message import ResourceName
from schemas.base.quantities import QuantityError, amount
from schemas.policy.parts import (
    RESOURCES_MAX,
    Conflict,
    Items,
    PolicyPart,
    PositivePercent,
    repeated,
)

#: What a default limit says in place of a quantity: the pod's request, or the node's allocatable.
REQUEST: Final = "request"
ALLOCATABLE: Final = "allocatable"


def _check_limit(text: str) -> str:
    try:
        if text in (REQUEST, ALLOCATABLE) or amount("", text) >= 0:
            return text
    except QuantityError:
        pass
    allowed = f'a quantity, not below 0, such as "500m" or "1Gi", "{REQUEST}" or "{ALLOCATABLE}"'
    raise PydanticCustomError("allowed", "{allowed}", {"allowed": allowed})


class ResourceWeight(PolicyPart):
    """How much a resource counts in the score."""

    name: ResourceName
    """Name of the resource."""
    weight: PositivePercent = 1
    """Its weight in the score."""


class NodeResourceLimitsAwareArgs(PolicyPart):
    """Arguments of the resource-limit-aware score."""

    resources: Annotated[Items[ResourceWeight], Field(max_length=RESOURCES_MAX)] = Field(
        (), validate_default=True
    )
    """Resources that are scored."""
    default_limit: Annotated[
        dict[ResourceName, Annotated[str, AfterValidator(_check_limit)]],
        Field(max_length=RESOURCES_MAX),
    ] = Field(default_factory=dict)
    """Limit of a pod that has none, by resource: `request` (its request, or 0), a quantity
    ("500m"), or `allocatable` (all that the node has)."""

    @field_validator("resources")
    @classmethod
    def _fill_resources(cls, resources: tuple[ResourceWeight, ...]) -> tuple[ResourceWeight, ...]:
        return resources or (ResourceWeight(name="cpu"), ResourceWeight(name="memory"))

    def conflicts(self) -> Iterable[Conflict]:
        """Each resource has one weight, and a default limit only if it has a weight."""
        yield from repeated(
            "resources", [each.name for each in self.resources], "a resource has one weight"
        )
        weighed = {each.name for each in self.resources}
        for name in self.default_limit:
            if name not in weighed:
                message = "the resource has no weight in resources, so the limit has no effect"
                yield Conflict(("defaultLimit", name), message, ("resources", "defaultLimit"))

    @property
    def weights(self) -> dict[str, int]:
        """Weight by resource, in the order given."""
        return {resource.name: resource.weight for resource in self.resources}

    def default_limit_of(self, resource: str) -> int | Literal["request", "allocatable"]:
        """Limit of a pod that has none: cpu in millicores, others in base units, or what stands for
        it."""
        text = self.default_limit.get(resource, REQUEST)
        if text == REQUEST:
            return REQUEST
        return ALLOCATABLE if text == ALLOCATABLE else amount(resource, text)
