"""Pods that must not be placed on any node."""

from schemas.messages.pods import Pod
from streams.placement.filters.unsupported import refusal
from streams.pods.limits import find_exceeded_limit


def find_obstacle(pod: Pod) -> str | None:
    """Return why a pod must not be placed; None if it may be.

    Like Kubernetes' scheduler, this refuses pods that are bound, have finished or are being deleted.
    """
    if pod.node is not None:
        return f"the pod is already bound to {pod.node}"
    if pod.has_finished:
        return "the pod has finished"
    if pod.deleting_at_ms is not None:
        return "the pod is being deleted"
    return refusal(pod) or find_exceeded_limit(pod)
