"""A pod with its room on a node."""

from dataclasses import dataclass

from schemas.messages.pods import Pod
from streams.pods.kind import Kind

#: A terminating pod should be gone this long after the end of its grace period.
REMOVAL_MS = 30_000


def is_overdue(pod: Pod, now_ms: int) -> bool:
    """Tell whether a terminating pod has exceeded its grace period, so that it may never leave."""
    return pod.deleting_at_ms is not None and now_ms - pod.deleting_at_ms > REMOVAL_MS


@dataclass(frozen=True, slots=True)
class HeldPod:
    pod: Pod
    kind: Kind
    assigned_at_ms: int
    decision_id: str | None = None
    """Id of the placement decision that reserved the room."""
    expires_at_ms: int | None = None
    """End of the reservation; None if the pod is confirmed to be on the node."""
    requested_at_ms: int | None = None
    """Time of the scheduling request, if a decision of loadstream placed the pod."""
    attempt: int = 0
    """Number of earlier failed attempts to place or bind the pod."""
    sequence: int = 0
    """Number of records that the cluster had applied when the pod was held."""
    list_id: str | None = None
    """The last full list that contains the pod."""
    arrival: int = 0
    """Order of arrival among the pods of a cluster; 0 before the pod is held."""

    @property
    def is_placeholder(self) -> bool:
        """Whether the room is for a replacement that does not exist yet, so no full list contains it."""
        return self.expires_at_ms is not None and self.decision_id is None and not self.is_nominated

    @property
    def is_nominated(self) -> bool:
        """Whether another scheduler has reserved the room for a pod that is not bound yet."""
        return self.pod.node is None and self.pod.nominated_node is not None
