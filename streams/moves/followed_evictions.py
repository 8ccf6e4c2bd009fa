"""Follows each eviction of a round for `moves.followSeconds`, and reports the outcome of the move.

A pod does not say which pod it replaces. So the next new pod of an owner counts as the replacement for the
owner's oldest eviction without a replacement. No decision depends on the outcomes.
"""

from typing import Any

from schemas.messages.moves import FollowedEvictionRow
from schemas.messages.pods import Pod, PodRef
from schemas.policy import Policy
from streams.stage.records import OutputMessage
from streams.stage.tracked_rows import TrackedRows

#: Most evictions that are followed at once. With more, the oldest evictions are reported early.
FOLLOWED_MAX = 10_000


class FollowedEvictions(TrackedRows[str, FollowedEvictionRow]):
    """Followed evictions of one cluster, by command id."""

    def __init__(self, cluster: str, policy: Policy) -> None:
        super().__init__("followed_evictions", lambda row: row.command_id, sorted_keys=True)
        self.cluster = cluster
        self._by_owner: dict[str, dict[str, None]] = {}
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Apply a policy, also to evictions that are followed already."""
        self._follow_ms = policy.moves.follow_seconds * 1000

    def follow(self, row: FollowedEvictionRow) -> None:
        """Follow a pod's eviction, unless its command is followed already."""
        earlier = self.list_replacements(row.owner).get(row.pod.uid)
        if earlier is not None:
            self.put(earlier.model_copy(update={"moved_again": True}))
        if row.command_id not in self.rows:
            self.put(row)

    def list_replacements(self, owner: str) -> dict[str, FollowedEvictionRow]:
        """Return an owner's followed evictions by uid of the replacement."""
        rows = self._list_by_owner(owner)
        return {row.replacement.uid: row for row in rows if row.replacement is not None}

    def note_arrival(self, owner: str, pod: Pod, node: str) -> None:
        """Note a new pod of an owner on a node."""
        waiting = [row for row in self._list_by_owner(owner) if row.replacement is None]
        if not waiting or pod.uid in self.list_replacements(owner):
            return
        row = min(waiting, key=_get_age_key)
        if row.pod.uid == pod.uid:
            return
        self.put(
            row.model_copy(
                update={
                    "replacement": PodRef(namespace=pod.namespace, name=pod.name, uid=pod.uid),
                    "target_node": node,
                    "returned": node == row.source_node,
                    "moved_again": False,
                }
            )
        )

    def note_hot(
        self, row: FollowedEvictionRow, source_hot: bool | None, target_hot: bool | None
    ) -> None:
        """Note whether source and target are hot in a round; None if the round has no usage of the node."""
        hot_after = {"source_hot_after": source_hot, "target_hot_after": target_hot}
        changed = {
            name: hot
            for name, hot in hot_after.items()
            if hot is not None and hot != getattr(row, name)
        }
        if changed:
            self.put(row.model_copy(update=changed))

    def tick(self, now_ms: int, as_of: dict[str, Any]) -> list[OutputMessage]:
        """Stop following evictions after `followSeconds`; return their outcomes, oldest first."""
        rows = sorted(self.rows.values(), key=_get_age_key)
        excess = len(rows) - FOLLOWED_MAX
        ended = [
            row
            for index, row in enumerate(rows)
            if index < excess or row.evicted_at_ms + self._follow_ms <= now_ms
        ]
        for row in ended:
            self.drop(row.command_id)
        ending = {"kind": "move", "ended_at_ms": now_ms, "as_of": as_of}
        return [
            OutputMessage("status", row.model_dump(exclude_none=True) | ending) for row in ended
        ]

    def put(self, row: FollowedEvictionRow) -> None:
        super().put(row)
        self._by_owner.setdefault(row.owner, {})[row.command_id] = None

    def drop(self, key: str) -> FollowedEvictionRow | None:
        """Stop following an eviction; return its row."""
        row = super().drop(key)
        if row is not None:
            commands = self._by_owner[row.owner]
            del commands[key]
            if not commands:
                del self._by_owner[row.owner]
        return row

    def _list_by_owner(self, owner: str) -> list[FollowedEvictionRow]:
        return [self.rows[command] for command in self._by_owner.get(owner, ())]


def _get_age_key(row: FollowedEvictionRow) -> tuple[int, str]:
    return row.evicted_at_ms, row.command_id
