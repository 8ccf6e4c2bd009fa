"""`resourcesFit` and `balancedAllocation`: arguments of kube-scheduler's scores by requests.

NodeResourcesFitArgs and NodeResourcesBalancedAllocationArgs, as kube-scheduler has them. Of the
scoring strategies there is LeastAllocated; the others are refused where the score is enabled.
"""

from collections.abc import Iterable
from typing import Annotated, Final, Literal

from pydantic import AfterValidator, Field

from schemas.policy.parts import (
    RESOURCES_MAX,
    Conflict,
    Items,
    PolicyPart,
    repeated,
)
from schemas.policy.sections.resource_limits import ResourceWeight

#: The strategy that there is.
LEAST_ALLOCATED: Final = "LeastAllocated"

#: cpu and memory where none is named.
_Resources = Annotated[
    Items[ResourceWeight],
    Field(max_length=RESOURCES_MAX),
    AfterValidator(
        lambda given: given or (ResourceWeight(name="cpu"), ResourceWeight(name="memory"))
    ),
]


class ScoringStrategy(PolicyPart):
    """How nodes are scored by what is requested on them."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = LEAST_ALLOCATED
    """`LeastAllocated` prefers nodes with few requests; the others are refused where the score is
    enabled."""
    resources: _Resources = Field((), validate_default=True)
    """Resources that are scored."""

    def conflicts(self) -> Iterable[Conflict]:
        """Each resource has one weight."""
        return repeated(
            "resources", [each.name for each in self.resources], "a resource is named once"
        )

    @property
    def weights(self) -> dict[str, int]:
        """Weight by resource, in the order given.

        None for a strategy that there is not: it can only stand in a policy that was in force
        before strategies were read, and had no effect there.
        """
        known = self.resources if self.type == LEAST_ALLOCATED else ()
        return {resource.name: resource.weight for resource in known}


class NodeResourcesFitArgs(PolicyPart):
    """Arguments of the filter and score by requests."""

    scoring_strategy: ScoringStrategy = Field(default_factory=ScoringStrategy)


class NodeResourcesBalancedAllocationArgs(PolicyPart):
    """Arguments of the score by how evenly resources are requested."""

    resources: _Resources = Field((), validate_default=True)
    """Resources that are compared; a `weight` can only be 1."""

    def conflicts(self) -> Iterable[Conflict]:
        """Each resource is named once, and all count the same."""
        yield from repeated(
            "resources", [each.name for each in self.resources], "a resource is named once"
        )
        for index, resource in enumerate(self.resources):
            if resource.weight != 1:
                message = f"found {resource.weight}; allowed is 1: all resources count the same"
                yield Conflict(("resources", index, "weight"), message, ("resources",))
