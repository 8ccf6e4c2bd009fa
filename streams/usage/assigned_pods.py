"""A pod as a node counts it, and what it adds to the node's sums.

Source: docs/reference/upstream.md A3, A4; see `node_usage`.
"""

from dataclasses import dataclass
from typing import NamedTuple

from schemas.messages.pods import Pod
from streams.pods.demand import PodDemand
from streams.usage.estimate import Estimate
from streams.usage.vectors import Vector


@dataclass(frozen=True, slots=True)
class AssignedPod:
    """A pod as it was when it was last counted; later changes of its labels are ignored."""

    pod: Pod
    demand: PodDemand
    cached_at_ms: int
    prod: bool
    estimate: Estimate
    timestamp_ms: int
    """When it was scheduled, else when it was counted."""
    deadline_ms: int | None
    """Its estimate counts under metrics older than this, even if they contain it."""


class Share(NamedTuple):
    """What one pod adds to the sums of its node."""

    delta: Vector
    prod_usage: Vector
    prod_delta: Vector


def is_same_for_estimation(cached: Pod, pod: Pod) -> bool:
    """Tell whether a pod still counts as before; a change of labels or annotations alone does not
    matter."""
    return (
        # Metrics name pods by these.
        (cached.namespace, cached.name) == (pod.namespace, pod.name)
        and cached.node == pod.node
        and cached.scheduled_at_ms == pod.scheduled_at_ms
        and cached.initialized_at_ms == pod.initialized_at_ms
        and cached.priority == pod.priority
        and cached.qos_class == pod.qos_class
        and cached.containers == pod.containers
        and cached.init_containers == pod.init_containers
        and cached.overhead == pod.overhead
    )
