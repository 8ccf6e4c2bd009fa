"""Pods that are not to be placed, whatever nodes there are."""

from schemas.messages.pods import Pod
from streams.placement.filters.unsupported import refusal
from streams.pods.limits import find_exceeded_limit


def unplaceable(pod: Pod) -> str | None:
    """Why a pod must not be placed, in a sentence; None if a node may be looked for.

    A pod that has a node, or is on its way out, wants none: as for Kubernetes' own scheduler.
    """
    if pod.node is not None:
        return f"the pod is bound to {pod.node} already"
    if pod.has_finished:
        return "the pod has finished"
    if pod.deleting_at_ms is not None:
        return "the pod is being deleted"
    return refusal(pod) or find_exceeded_limit(pod)
