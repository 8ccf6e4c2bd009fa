"""`scheduling-requests`: pods that need a node."""

from schemas.base.message import ClusterName, EpochMs, Message
from schemas.messages.pods import Pod


class SchedulingRequest(Message):
    """A pod needs a node (key: cluster). A second request for the same uid replaces the first."""

    cluster: ClusterName
    pod: Pod
    """The pod to place."""
    requested_at_ms: EpochMs
    """When the request was made."""
    withdrawn: bool = False
    """True: the pod no longer needs a node (it was deleted, or bound by another scheduler)."""
