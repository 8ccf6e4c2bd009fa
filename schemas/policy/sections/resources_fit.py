"""`resourcesFit` and `balancedAllocation`: arguments of kube-scheduler's scores by requests.

The fields come from NodeResourcesFitArgs and NodeResourcesBalancedAllocationArgs. LeastAllocated is the
only supported scoring strategy; other strategies are refused if the score is enabled.
"""

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from schemas.policy.parts import (
    RESOURCES_MAX,
    Conflict,
    Items,
    PolicyPart,
    find_repeated,
)
from schemas.policy.sections.resource_limits import ResourceWeight

#: The only supported strategy.
LEAST_ALLOCATED: Final = "LeastAllocated"

#: Default: cpu and memory.
_Resources = Annotated[
    Items[ResourceWeight],
    Field(max_length=RESOURCES_MAX),
    AfterValidator(
        lambda resources: resources or (ResourceWeight(name="cpu"), ResourceWeight(name="memory"))
    ),
]


class ScoringStrategy(PolicyPart):
    """How requests on a node become its score."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = LEAST_ALLOCATED
    """`LeastAllocated` prefers nodes with few requests; other strategies are refused if the score is
    enabled."""
    resources: _Resources = Field((), validate_default=True)
    """Resources that are scored."""

    def conflicts(self) -> Iterable[Conflict]:
        return find_repeated(
            "resources", [resource.name for resource in self.resources], "a resource is named once"
        )

    @property
    def weights(self) -> dict[str, int]:
        """Weight by resource, in the order given; empty for an unsupported strategy."""
        resources = self.resources if self.type == LEAST_ALLOCATED else ()
        return {resource.name: resource.weight for resource in resources}


class NodeResourcesFitArgs(PolicyPart):
    """Arguments of the filter and score by requests."""

    scoring_strategy: ScoringStrategy = Field(default_factory=ScoringStrategy)


class NodeResourcesBalancedAllocationArgs(PolicyPart):
    """Arguments of the score by how evenly resources are requested."""

    resources: _Resources = Field((), validate_default=True)
    """Resources that are compared; a `weight` can only be 1."""

    def conflicts(self) -> Iterable[Conflict]:
        """Each resource is named once, without a weight."""
        yield from find_repeated(
            "resources", [resource.name for resource in self.resources], "a resource is named once"
        )
        for index, resource in enumerate(self.resources):
            if resource.weight != 1:
                message = f"found {resource.weight}; expected 1, because all resources have the same weight"
                yield Conflict(("resources", index, "weight"), message, ("resources",))
