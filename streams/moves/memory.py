"""Everything that is remembered of moves in one cluster, and its rows.

The cluster hands on what happens, and asks before it moves a pod or places one. A memory whose
`tables` are restored goes on exactly as the one that the rows were made from, whatever their order.
"""

from typing import Any

from schemas.messages.pods import Pod
from schemas.policy import Policy
from streams.moves.followed import FollowedEvictions
from streams.moves.history import Moves
from streams.stage.records import OutputMessage
from streams.stage.tracked_rows import TrackedRows


class MoveMemory:
    """Recent moves and followed evictions of one cluster."""

    def __init__(self, cluster: str, policy: Policy) -> None:
        self.moves = Moves(cluster, policy)
        self.followed = FollowedEvictions(cluster, policy)
        self.tracked_rows: tuple[TrackedRows[str, Any], ...] = (
            self.moves.cooldown,
            self.moves,
            self.followed,
        )
        """What is kept in rows, in the order in which they are written."""

    def set_policy(self, policy: Policy, now_ms: int) -> None:
        """Judge by another policy from now on; one with shorter waits shortens those under way."""
        self.moves.set_policy(policy)
        self.moves.shorten_waits(now_ms)
        self.followed.set_policy(policy)

    def arrived(self, pod: Pod, node: str, now_ms: int) -> None:
        """A pod that was not there before has got a node.

        Costs nothing where nothing is remembered.
        """
        if not self.moves and not self.followed:
            return
        owner = pod.owner_key
        self.moves.arrived(owner, node, now_ms)
        self.followed.note_arrival(owner, pod, node)

    def pod_changed(self, pod: Pod, now_ms: int, *, arrived: bool, over: bool) -> None:
        """A record of a pod came.

        Args:
            pod: as it is now.
            now_ms: the log's time.
            arrived: it has got its node only now.
            over: it is deleted, or runs no longer.
        """
        if pod.node is not None and arrived and not over:
            self.arrived(pod, pod.node, now_ms)

    def tick(self, now_ms: int, as_of: dict[str, Any]) -> list[OutputMessage]:
        """Time has passed: what is over is forgotten; return the outcomes of moves that were followed."""
        self.moves.tick(now_ms)
        return self.followed.tick(now_ms, as_of)
