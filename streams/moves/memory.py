"""The state about moves of one cluster, and its rows."""

from typing import Any

from schemas.messages.pods import Pod
from schemas.policy import Policy
from streams.moves.followed_evictions import FollowedEvictions
from streams.moves.history import MoveHistory
from streams.stage.records import OutputMessage
from streams.stage.tracked_rows import TrackedRows


class MoveMemory:
    """Recent moves and followed evictions of one cluster."""

    def __init__(self, cluster: str, policy: Policy) -> None:
        self.moves = MoveHistory(cluster, policy)
        self.followed = FollowedEvictions(cluster, policy)
        self.tracked_rows: tuple[TrackedRows[str, Any], ...] = (
            self.moves.cooldown,
            self.moves,
            self.followed,
        )
        """All rows, in the order of writing and restoring."""

    def set_policy(self, policy: Policy, now_ms: int) -> None:
        """Apply a policy, and shorten freezes to its limit."""
        self.moves.set_policy(policy)
        self.moves.shorten_freezes(now_ms)
        self.followed.set_policy(policy)

    def record_arrival(self, pod: Pod, node: str, now_ms: int) -> None:
        """Record that a pod was placed on a node."""
        if not self.moves and not self.followed:
            return
        owner = pod.owner_key
        self.moves.record_arrival(owner, node, now_ms)
        self.followed.note_arrival(owner, pod, node)

    def tick(self, now_ms: int, as_of: dict[str, Any]) -> list[OutputMessage]:
        """Drop old rows; return the outcomes of moves that are no longer followed."""
        self.moves.tick(now_ms)
        return self.followed.tick(now_ms, as_of)
