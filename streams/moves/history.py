"""Recent moves per owner: where its pods must not return, and whether it moves in loops.

In comes which owner leaves a node because it is hot (`left`), that its pod stayed (`stayed`), and
where a new pod of an owner arrives (`arrived`). Out go two answers, one for placement
(`forbidden_nodes`: left while hot and not cool yet) and one for rebalancing (`frozen`:
docs/reference/upstream.md P1 to P6, P48, O2).

A departure and an arrival make a move: the oldest departure that is open takes the next arrival,
whichever of the owner's pods it is, because a replacement does not say what it replaces. An owner
without memory costs one look-up. Moves that are only said to happen count against the number of
moves, as the real ones would, and keep no pod away from anywhere; they are forgotten when saying
becomes doing.
"""

from collections.abc import Container

from schemas.messages.moves import HISTORY_MAX, RecentMove, RecentMovesRow
from schemas.messages.pods import Pod
from schemas.policy import Policy
from streams.moves.cooldown import Cooldown
from streams.moves.deadlines import Deadlines, doubling_ms, seconds
from streams.moves.loops import loop_of
from streams.stage.tracked_rows import TrackedRows

#: Most owners that are remembered; the one that was silent longest is forgotten first.
OWNERS_MAX = 10_000

_NOWHERE: frozenset[str] = frozenset()
_TEXT_MAX = 500


class Moves(TrackedRows[str, RecentMovesRow]):
    """Moves of the pods of one cluster, by owner."""

    def __init__(self, cluster: str, policy: Policy, owners_max: int = OWNERS_MAX) -> None:
        super().__init__("recent_moves", lambda row: row.owner, sorted_keys=True)
        self.cluster = cluster
        self.owners_max = owners_max
        self.cooldown = Cooldown(cluster, policy)
        self._leavers: dict[str, dict[str, None]] = {}
        """Owners that remember having left a node."""
        self._deadlines = Deadlines()
        self._overdue: dict[str, None] = {}
        """Owners that are remembered only because a node that they left is not cool yet."""
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Judge by another policy.

        When moves become real, those that were only said are forgotten.
        """
        self.args = policy.moves
        self.cooldown.set_policy(policy)
        self.enabled = policy.remembers_moves
        self._deadlines.clear()
        for owner, row in sorted(self.rows.items()):
            kept = row if policy.dry_run else _without_dry(row)
            if kept is not row:
                self._put(owner, kept)
            else:
                self._deadlines.expect(self._due_ms(row), owner)

    def shorten_waits(self, now_ms: int) -> None:
        """No owner is frozen for longer than the policy says from now on."""
        for owner, row in sorted(self.rows.items()):
            latest_ms = now_ms + self._freeze_ms(row.freezes)
            if row.frozen_until_ms > latest_ms:
                self._put(owner, row.model_copy(update={"frozen_until_ms": latest_ms}))

    # --- what happens -----------------------------------------------------------------------------

    def left(
        self,
        owner: str,
        node: str,
        now_ms: int,
        why: str,
        *,
        dry_run: bool = False,
        replicas: int = 1,
    ) -> None:
        """A pod of the owner is commanded to leave a hot node; one move too many freezes the owner.

        Args:
            owner: see `Pod.owner_key`.
            node: the node that it leaves.
            now_ms: the log's time.
            why: why it leaves, for readers of the row.
            dry_run: it is only said to leave.
            replicas: how many pods the owner has: each of them may move once.
        """
        if not self.enabled:
            return
        row = self.rows.get(owner) or self._new(owner)
        move = RecentMove(source=node, left_at_ms=now_ms, why=why[:_TEXT_MAX], dry_run=dry_run)
        if not dry_run:
            self.cooldown.hot(node, now_ms)
        moves = (*self._matter(row, now_ms), move)[-HISTORY_MAX:]
        row = row.model_copy(update={"moves": moves, "touched_at_ms": now_ms})
        recent = self._recent(row, now_ms)
        allowed = max(self.args.max_moves_per_owner, replicas)
        if len(recent) > allowed and row.frozen_until_ms <= now_ms:
            why = f"{len(recent)} moves within {self.args.loop_window_seconds} s, allowed are {allowed}"
            row = self._frozen(row, "count", why, now_ms, dry=any(each.dry_run for each in recent))
        self._put(owner, row)

    def stayed(self, owner: str, node: str, now_ms: int, *, dry_run: bool = False) -> None:
        """A pod did not leave, or is no longer said to: the newest such departure from the node is
        taken back.
        """
        row = self.rows.get(owner)
        if row is None:
            return
        for index in range(len(row.moves) - 1, -1, -1):
            move = row.moves[index]
            open_one = move.source == node and move.arrived_at_ms is None
            if open_one and move.dry_run == dry_run:
                break
        else:
            return
        moves = row.moves[:index] + row.moves[index + 1 :]
        update: dict[str, object] = {"moves": moves, "touched_at_ms": now_ms}
        if row.frozen_by == "count" and row.frozen_at_ms == move.left_at_ms:
            # It was the move too many.
            update |= _thawed(row.freezes - 1)
        self._put(owner, row.model_copy(update=update))

    def arrived(self, owner: str, node: str, now_ms: int) -> None:
        """A new pod of the owner runs on a node; one that closes a loop freezes the owner."""
        row = self.rows.get(owner)
        if row is None:
            return
        recent = self._recent(row, now_ms)
        opened = next((each for each in recent if each.target is None and not each.dry_run), None)
        if opened is None:
            return
        closed = opened.model_copy(update={"target": node, "arrived_at_ms": now_ms})
        moves = tuple(closed if each is opened else each for each in row.moves)
        row = row.model_copy(update={"moves": moves, "touched_at_ms": now_ms})
        path = loop_of(self._matter(row, now_ms), closed)
        if path is not None and row.frozen_until_ms <= now_ms:
            nodes = " → ".join(path if len(path) <= 8 else (*path[:4], "…", *path[-3:]))
            why = f"its pods went {nodes}"
            row = self._frozen(row, "circle", why, now_ms, dry=False)
        self._put(owner, row)

    def metric(self, node: str, updated_at_ms: int) -> None:
        """A node has sent a metric."""
        self.cooldown.metric(node, updated_at_ms)

    def observe(self, hot: Container[str], now_ms: int) -> None:
        """A round has found these nodes hot."""
        for node in [node for node in self.cooldown.rows if node in hot]:
            self.cooldown.hot(node, now_ms)

    def node_gone(self, node: str) -> None:
        """The node is gone; a later one of its name is another node."""
        self.cooldown.drop(node)

    def tick(self, now_ms: int) -> None:
        """Time has passed: what is over is forgotten."""
        for owner in self._deadlines.due(now_ms):
            self._overdue[owner] = None
        for owner in sorted(self._overdue):
            row = self.rows.get(owner)
            if row is None or self._due_ms(row) > now_ms:
                del self._overdue[owner]
            elif not self._matter(row, now_ms):
                del self._overdue[owner]
                self._put(owner, None)

    # --- answers ----------------------------------------------------------------------------------

    def avoided(self, pod: Pod, now_ms: int) -> frozenset[str]:
        """Nodes that a pod must stay away from, see `forbidden_nodes`.

        Costs nothing where nothing is remembered.
        """
        if not self.rows:
            return _NOWHERE
        return self.forbidden_nodes(pod.owner_key, now_ms)

    def forbidden_nodes(self, owner: str, now_ms: int) -> frozenset[str]:
        """Nodes that pods of the owner (see `Pod.owner_key`) left and that are hot or cooling."""
        row = self.rows.get(owner)
        if row is None or not self.enabled:
            return _NOWHERE
        sources = dict.fromkeys(move.source for move in row.moves if not move.dry_run)
        return frozenset(node for node in sources if self.cooldown.cooling(node, now_ms))

    def cooling(self, now_ms: int) -> list[str]:
        """Nodes that moves have left and that are hot or cooling."""
        if not self.enabled:
            return []
        return [node for node in self.cooldown.rows if self.cooldown.cooling(node, now_ms)]

    def resting(
        self, owner: str, node: str, since_ms: int, rest_ms: int, now_ms: int
    ) -> str | None:
        """Why a pod of the owner is not moved on from a node; None: no move brought it there lately.

        A pod does not say which one it replaces: one that was given its node after a pod of the
        owner had to leave for there counts as that one's replacement. It rests for no longer than
        the window of moves that are looked at.

        Args:
            owner: see `Pod.owner_key`.
            node: the node that the pod is on.
            since_ms: since when it is.
            rest_ms: how long a pod rests that a move has brought.
            now_ms: the log's time.
        """
        row = self.rows.get(owner)
        if row is None or not self.enabled:
            return None
        for move in row.moves:
            came_ms = move.arrived_at_ms
            if move.target != node or came_ms is None or since_ms < move.left_at_ms:
                continue
            # Whether an older move is still in the row depends on other pods and on its node.
            forgotten_ms = move.left_at_ms + self.args.loop_window_seconds * 1000
            left_ms = min(came_ms + rest_ms, forgotten_ms) - now_ms
            if left_ms > 0:
                return f"it came by a move {seconds(now_ms - came_ms)} s ago, rests for {seconds(left_ms)} s more"
        return None

    def frozen(self, owner: str, now_ms: int) -> str | None:
        """Why pods of the owner are not moved now, with numbers; None: they may be."""
        row = self.rows.get(owner)
        if row is None or not self.enabled or row.frozen_until_ms <= now_ms:
            return None
        left_s = seconds(row.frozen_until_ms - now_ms)
        return f"the owner is frozen for {left_s} s more, time {row.freezes} in a row: {row.frozen_for}"

    # --- rows -------------------------------------------------------------------------------------

    def take(self, row: RecentMovesRow) -> None:
        """Take over a row as it was written; the order of rows does not matter."""
        self._put(row.owner, row)

    def _new(self, owner: str) -> RecentMovesRow:
        if len(self.rows) >= self.owners_max:
            oldest = min(self.rows.values(), key=lambda row: (row.touched_at_ms, row.owner))
            self._put(oldest.owner, None)
        return RecentMovesRow(cluster=self.cluster, owner=owner, touched_at_ms=0)

    def _put(self, owner: str, row: RecentMovesRow | None) -> None:
        if row is not None and not row.moves and not row.freezes:
            row = None
        before = _sources(self.rows.get(owner))
        if row is None:
            self.drop(owner)
        else:
            self.put(row)
            self._deadlines.expect(self._due_ms(row), owner)
        after = _sources(row)
        for node in after:
            self._leavers.setdefault(node, {})[owner] = None
        for node in before:
            if node not in after:
                leavers = self._leavers[node]
                del leavers[owner]
                if not leavers:
                    del self._leavers[node]
                    self.cooldown.drop(node)

    # --- rules ------------------------------------------------------------------------------------

    def _recent(self, row: RecentMovesRow, now_ms: int) -> list[RecentMove]:
        since_ms = now_ms - self.args.loop_window_seconds * 1000
        return [move for move in row.moves if move.left_at_ms > since_ms]

    def _matter(self, row: RecentMovesRow, now_ms: int) -> tuple[RecentMove, ...]:
        """Moves that are recent, or left nodes that are not cool yet; all of an owner that was
        frozen.

        Freezes may be longer than the window, and a loop that goes on after one is the same loop.
        """
        if row.freezes and now_ms < self._due_ms(row):
            return row.moves
        since_ms = now_ms - self.args.loop_window_seconds * 1000
        return tuple(
            move
            for move in row.moves
            if move.left_at_ms > since_ms
            or (not move.dry_run and self.cooldown.cooling(move.source, now_ms))
        )

    def _due_ms(self, row: RecentMovesRow) -> int:
        """When a row stops to matter, if no node is hot."""
        newest_ms = max((move.left_at_ms for move in row.moves), default=0)
        return max(newest_ms, row.frozen_until_ms) + self.args.loop_window_seconds * 1000

    def _freeze_ms(self, times: int) -> int:
        return doubling_ms(self.args.initial_freeze_seconds, self.args.max_freeze_seconds, times)

    def _frozen(
        self, row: RecentMovesRow, by: str, why: str, now_ms: int, *, dry: bool
    ) -> RecentMovesRow:
        freezes = row.freezes + 1
        return row.model_copy(
            update={
                "freezes": freezes,
                "frozen_until_ms": now_ms + self._freeze_ms(freezes),
                "frozen_at_ms": now_ms,
                "frozen_for": why[:_TEXT_MAX],
                "frozen_by": by,
                "frozen_dry": dry,
            }
        )


def _sources(row: RecentMovesRow | None) -> dict[str, None]:
    """Nodes that a row's owner really left."""
    moves = () if row is None else row.moves
    return dict.fromkeys(move.source for move in moves if not move.dry_run)


def _thawed(freezes: int) -> dict[str, object]:
    return {
        "freezes": freezes,
        "frozen_until_ms": 0,
        "frozen_at_ms": 0,
        "frozen_for": "",
        "frozen_by": "",
        "frozen_dry": False,
    }


def _without_dry(row: RecentMovesRow) -> RecentMovesRow | None:
    """The row without dry moves and their effects; None: nothing is left."""
    moves = tuple(move for move in row.moves if not move.dry_run)
    if len(moves) == len(row.moves) and not row.frozen_dry:
        return row
    update: dict[str, object] = {"moves": moves}
    if row.frozen_dry:
        update |= _thawed(0)
    return row.model_copy(update=update) if moves or not row.frozen_dry else None
