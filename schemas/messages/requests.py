"""`scheduling-requests`: pods that want a node."""

from schemas.base.message import ClusterName, EpochMs, Message
from schemas.messages.pods import Pod


class SchedulingRequest(Message):
    """A pod wants a node (key: cluster). A second request for the same uid replaces the first."""

    cluster: ClusterName
    pod: Pod
    """The pod that is to be placed."""
    requested_at_ms: EpochMs
    """When the request was made."""
    withdrawn: bool = False
    """The pod does not want a node any more (deleted, bound by somebody else)."""
