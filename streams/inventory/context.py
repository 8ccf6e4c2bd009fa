"""Under which policy, at what time, and whether at all a cluster decides: kept once, replaced whole."""

from dataclasses import dataclass

from schemas.policy import Policy


@dataclass(frozen=True, slots=True)
class Context:
    """What every part of a cluster reads of its inventory and none keeps for itself."""

    policy: Policy
    now_ms: int = 0
    """The log's time; 0 before its first tick."""
    begun: bool = False
    """The clock has ticked."""
    paused: bool = False
    """The cluster is paused: it notes what comes, and decides nothing."""
