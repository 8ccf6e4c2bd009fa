"""`resourcesFit` and `balancedAllocation`: arguments of kube-scheduler's scores by requests.

The fields come from NodeResourcesFitArgs and NodeResourcesBalancedAllocationArgs. LeastAllocated is the
only supported scoring strategy; other strategies are refused if the score is enabled.
"""

from collections.abc import Iterable
from typing import Final, Literal

from pydantic import Field

from schemas.policy.parts import Conflict, PolicyPart, find_repeated
from schemas.policy.sections.resource_limits import WeightedResources

#: The only supported strategy.
LEAST_ALLOCATED: Final = "LeastAllocated"


class ScoringStrategy(PolicyPart):
    """How requests on a node become its score."""

    type: Literal["LeastAllocated", "MostAllocated", "RequestedToCapacityRatio"] = LEAST_ALLOCATED
    """`LeastAllocated` prefers nodes with few requests; other strategies are refused if the score is
    enabled."""
    resources: WeightedResources = Field((), validate_default=True)
    """Resources that are scored."""

    def conflicts(self) -> Iterable[Conflict]:
        return find_repeated(self, "resources")

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

    resources: WeightedResources = Field((), validate_default=True)
    """Resources that are compared; a `weight` can only be 1."""

    def conflicts(self) -> Iterable[Conflict]:
        """Each resource is named once, without a weight."""
        yield from find_repeated(self, "resources")
        for index, resource in enumerate(self.resources):
            if resource.weight != 1:
                message = f"found {resource.weight}; expected 1, because all resources have the same weight"
                yield Conflict(("resources", index, "weight"), message, ("resources",))
