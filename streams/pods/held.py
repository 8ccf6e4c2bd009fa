"""A pod that takes room on a node."""

from dataclasses import dataclass

from schemas.messages.pods import Pod
from streams.pods.demand import PodDemand

#: A pod is to be gone this long after its time to end is over, in ms.
REMOVAL_MS = 30_000


def is_overdue(pod: Pod, now_ms: int) -> bool:
    """Tell whether a pod still terminates although its grace period is over: it may never go."""
    return pod.deleting_at_ms is not None and now_ms - pod.deleting_at_ms > REMOVAL_MS


@dataclass(frozen=True, slots=True)
class Held:
    """A pod that takes room on a node."""

    pod: Pod
    demand: PodDemand
    assigned_at_ms: int
    decision_id: str | None = None
    """The placement decision that reserved the room."""
    expires_at_ms: int | None = None
    """The room is given up then, unless the pod's lifecycle confirms it before; None: confirmed."""
    requested_at_ms: int | None = None
    """When the pod asked for a node, if a decision of ours put it here."""
    attempt: int = 0
    """How many attempts to place or to bind it had failed by then."""
    sequence: int = 0
    """How many records of the cluster had been applied when it was taken in."""
    list_id: str | None = None
    """The full list that named it last."""
    place: int = 0
    """Orders the pods of a node: those taken in later have greater ones. 0: not held yet."""

    @property
    def for_replacement(self) -> bool:
        """The room is kept for a pod that its owner has not made yet; no list of pods can name it."""
        return self.expires_at_ms is not None and self.decision_id is None and not self.is_nominated

    @property
    def is_nominated(self) -> bool:
        """Another scheduler holds the room, for a pod that is not bound yet."""
        return self.pod.node is None and self.pod.nominated_node is not None

    def compute_age_minutes(self, now_ms: int) -> int:
        """Return for how many whole minutes the pod has been on its node; below 0: it was not yet."""
        since_ms = self.pod.scheduled_at_ms
        return (now_ms - (self.assigned_at_ms if since_ms is None else since_ms)) // 60_000
