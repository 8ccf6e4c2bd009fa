"""`resourceLimits`: arguments of the score NodeResourceLimitsAware.

A node's score is the share that the limits of its pods leave free. A pod without a limit counts with
its request (0 if it has none), or with `defaultLimit`: a quantity, or the whole node.
"""

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from schemas.base.message import ResourceName
from schemas.base.quantities import QuantityError, parse_amount
from schemas.policy.errors import not_allowed
from schemas.policy.parts import (
    RESOURCES_MAX,
    Conflict,
    Items,
    PolicyPart,
    PositivePercent,
    ResourceMap,
    find_repeated,
)

#: Special default limits: the pod's request, or the node's allocatable amount.
REQUEST: Final = "request"
ALLOCATABLE: Final = "allocatable"


def _check_limit(text: str) -> str:
    try:
        if text in (REQUEST, ALLOCATABLE) or parse_amount("", text) >= 0:
            return text
    except QuantityError:
        pass
    raise not_allowed(
        f'a quantity, not below 0, such as "500m" or "1Gi", "{REQUEST}" or "{ALLOCATABLE}"'
    )


class ResourceWeight(PolicyPart):
    name: ResourceName
    """Name of the resource."""
    weight: PositivePercent = 1
    """Its weight in the score."""


#: Default: cpu and memory.
WeightedResources = Annotated[
    Items[ResourceWeight],
    Field(max_length=RESOURCES_MAX),
    AfterValidator(
        lambda resources: resources or (ResourceWeight(name="cpu"), ResourceWeight(name="memory"))
    ),
]


class NodeResourceLimitsAwareArgs(PolicyPart):
    """Arguments of the resource-limit-aware score."""

    resources: WeightedResources = Field((), validate_default=True)
    """Resources that are scored."""
    default_limit: ResourceMap[Annotated[str, AfterValidator(_check_limit)]] = Field(
        default_factory=dict
    )
    """Limit of a pod without a limit, by resource: `request` (its request, or 0), a quantity
    ("500m"), or `allocatable` (the whole node)."""

    def conflicts(self) -> Iterable[Conflict]:
        """Each resource has one weight; a resource with a default limit needs a weight."""
        yield from find_repeated(self, "resources")
        weighted = {resource.name for resource in self.resources}
        for name in self.default_limit:
            if name not in weighted:
                message = "the resource has no weight in resources, so the limit has no effect"
                yield Conflict(("defaultLimit", name), message, ("resources", "defaultLimit"))

    @property
    def weights(self) -> dict[str, int]:
        return {resource.name: resource.weight for resource in self.resources}

    def default_limit_of(self, resource: str) -> int | Literal["request", "allocatable"]:
        """Return the default limit: an amount (cpu in millicores, others in base units), REQUEST or
        ALLOCATABLE."""
        text = self.default_limit.get(resource, REQUEST)
        if text == REQUEST:
            return REQUEST
        return ALLOCATABLE if text == ALLOCATABLE else parse_amount(resource, text)
