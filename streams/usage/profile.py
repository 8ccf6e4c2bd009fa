"""What a node's state means under one policy: capacity, and the most that each threshold lets it
use.

Made when Kubernetes' word on the node changes (annotations are read here and nowhere else), so that
a change of its usage or pods costs additions only.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

from streams.usage.estimate import Vector
from streams.usage.rounding import UNBOUNDED, largest_within
from streams.usage.thresholds import Thresholds, node_thresholds

#: Totals and thresholds of which the most that may be used is remembered; a cluster has few.
_MOST_MAX = 4_096


@dataclass(frozen=True, slots=True)
class NodeProfile:
    """Vectors over the resources of the policy."""

    total: Vector
    """Capacity of the node."""
    most: Vector | None
    """The most that may be used, by the thresholds for all pods; None: nothing is checked.

    `UNBOUNDED` for a resource without a threshold, or of which the node has nothing."""
    most_prod: Vector | None
    """The most that prod pods may use; None: prod pods are judged as all others."""
    aggregation: str | None
    """Statistic that `most` is about; None: the average usage."""
    aggregated_ms: int
    """Duration of that statistic; 0: the longest one measured."""


def node_profile(
    capacity: Mapping[str, int],
    annotations: Mapping[str, str],
    resources: tuple[str, ...],
    defaults: Thresholds,
) -> NodeProfile:
    """Return the profile of a node.

    Args:
        capacity: of the node, by resource; empty: Kubernetes has not named it.
        annotations: of the node.
        resources: of the policy.
        defaults: thresholds of nodes that do not override them.
    """
    total = tuple([capacity.get(name, 0) for name in resources])
    thresholds = node_thresholds(annotations, defaults)
    aggregated = thresholds.aggregated
    checked = thresholds.plain if aggregated is None else aggregated.thresholds
    return NodeProfile(
        total=total,
        most=_most(total, thresholds.vector(checked, resources)),
        most_prod=_most(total, thresholds.vector(thresholds.prod, resources)),
        aggregation=None if aggregated is None else aggregated.aggregation,
        aggregated_ms=0 if aggregated is None else aggregated.duration_ms,
    )


@lru_cache(maxsize=_MOST_MAX)
def _most(total: Vector, thresholds: Vector) -> Vector | None:
    if not any(thresholds):
        return None
    return tuple(
        largest_within(capacity, threshold) if threshold and capacity > 0 else UNBOUNDED
        for capacity, threshold in zip(total, thresholds, strict=True)
    )
