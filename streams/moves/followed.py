"""Evictions that are followed, and what finds them: owner, replacement, watched node, time."""

from typing import TypeVar

from schemas.moves import FollowedEvictionRow, Phase
from streams.moves.deadlines import Deadlines
from streams.stage.tracked_table import TrackedRows

_K = TypeVar("_K")
#: Pool by whose thresholds a node is judged, node, and what is watched on it.
Watched = tuple[str, str, Phase]


class FollowedEvictions(TrackedRows[str, FollowedEvictionRow]):
    """The evictions of one cluster that are being followed, by command id."""

    def __init__(self) -> None:
        super().__init__("followed_evictions", lambda row: row.command_id, sorted_keys=True)
        self._waiting: dict[str, dict[str, None]] = {}
        """Commands whose replacement has not come, by owner."""
        self._replacements: dict[str, str] = {}
        """Command by uid of the replacement."""
        self._watched: dict[Watched, dict[str, None]] = {}
        """Commands by what is watched."""
        self._ends: dict[str, dict[str, None]] = {}
        """Commands that are no dry ones by their source and their target."""
        self._bounced: dict[str, None] = {}
        self._deadlines = Deadlines()
        self._follow_ms = 0

    def follow_for(self, follow_ms: int) -> None:
        """Each is followed for this long."""
        self._follow_ms = follow_ms
        self._deadlines.clear()
        for row in self.rows.values():
            self._deadlines.expect(self._due_ms(row), row.command_id)

    # --- answers ----------------------------------------------------------------------------------

    def of_replacement(self, uid: str) -> FollowedEvictionRow | None:
        """The eviction whose pod a pod replaces."""
        return self.rows.get(self._replacements.get(uid, ""))

    def waiting(self, owner: str) -> FollowedEvictionRow | None:
        """The oldest eviction of an owner whose replacement has not come."""
        return min(
            (self.rows[command] for command in self._waiting.get(owner, ())),
            key=lambda each: (each.evicted_at_ms, each.command_id),
            default=None,
        )

    def watched(self) -> list[Watched]:
        """Nodes, by which pool and what on them, that rounds should report; in order."""
        return sorted(self._watched)

    def at(self, watched: Watched) -> list[FollowedEvictionRow]:
        """Those for which a node is watched."""
        return [self.rows[command] for command in self._watched.get(watched, ())]

    def ends(self, node: str) -> list[FollowedEvictionRow]:
        """Those whose pods have left a node or come to it."""
        return [self.rows[command] for command in self._ends.get(node, ())]

    def over(self, now_ms: int) -> list[FollowedEvictionRow]:
        """Those that were followed for long enough or have bounced, the oldest first."""
        names = dict.fromkeys((*self._deadlines.due(now_ms), *self._bounced))
        over = [
            row
            for name in names
            if (row := self.rows.get(name)) is not None
            and (row.bounced or self._due_ms(row) <= now_ms)
        ]
        return sorted(over, key=lambda row: (row.evicted_at_ms, row.command_id))

    # --- rows -------------------------------------------------------------------------------------

    def put(self, row: FollowedEvictionRow) -> None:
        """Keep a row as it is now, and what finds it."""
        command = row.command_id
        new = self.drop(command) is None
        super().put(row)
        if row.replacement is not None:
            self._replacements[row.replacement.uid] = command
        elif not row.dry_run:
            self._waiting.setdefault(row.owner, {})[command] = None
        if row.bounced:
            self._bounced[command] = None
        for node in _nodes(row):
            self._watched.setdefault((row.pool, node, row.phase), {})[command] = None
        for node in () if row.dry_run else _ends(row):
            self._ends.setdefault(node, {})[command] = None
        if new:
            self._deadlines.expect(self._due_ms(row), command)

    def note(self, row: FollowedEvictionRow) -> None:
        """Keep a row of which nothing has changed that finds it."""
        super().put(row)

    def drop(self, key: str) -> FollowedEvictionRow | None:
        """Keep nothing of a command; answers with what was kept."""
        row = super().drop(key)
        if row is None:
            return None
        if row.replacement is not None:
            self._replacements.pop(row.replacement.uid, None)
        self._bounced.pop(key, None)
        _discard(self._waiting, row.owner, key)
        for node in _nodes(row):
            _discard(self._watched, (row.pool, node, row.phase), key)
        for node in _ends(row):
            _discard(self._ends, node, key)
        return row

    def _due_ms(self, row: FollowedEvictionRow) -> int:
        return row.evicted_at_ms + self._follow_ms


def _ends(row: FollowedEvictionRow) -> list[str]:
    """Source and target."""
    return [node for node in (row.source_node, row.target_node) if node is not None]


def _nodes(row: FollowedEvictionRow) -> list[str]:
    """All nodes that are watched for an eviction, each once."""
    return list(dict.fromkeys((*_ends(row), *row.peers)))


def _discard(index: dict[_K, dict[str, None]], key: _K, command: str) -> None:
    held = index.get(key)
    if held is not None:
        held.pop(command, None)
        if not held:
            del index[key]
