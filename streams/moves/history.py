"""Recent moves per owner: nodes to which its pods must not return, and freezes of owners.

A move is a departure and an arrival. A departure is recorded when a command evicts a pod from a hot node,
and cancelled if the pod stays. A new pod does not say which pod it replaces, so the next new pod of an
owner counts as the arrival of the owner's oldest open departure.

- Placement avoids nodes that the owner has left and that have not cooled (`find_avoided`).
- An owner is frozen if its pods moved too often, or in a loop. Rebalancing does not move pods of a frozen
  owner (`explain_freeze`; docs/reference/upstream.md P1 to P6, P48, O2).

A loop is a chain of moves that returns to its first node: A → B → A, A → B → C → A, or A → A for a pod
that came straight back. Each move starts on the node where the previous move arrived, and after that time.
Moves of different replicas may form a loop, because such moves relieve no node.

Dry moves count for freezes like real moves, but placement avoids no node because of dry moves. They are
forgotten when evictions are no longer dry.
"""

from collections import Counter
from collections.abc import Sequence

from schemas.messages.moves import HISTORY_MAX, RecentMove, RecentMovesRow
from schemas.policy import Policy
from streams.moves.cooldown import Cooldown
from streams.moves.waits import ceil_seconds, compute_wait_ms
from streams.stage.tracked_rows import TrackedRows

#: Most owners with rows. With more, the row with the oldest change is dropped.
OWNERS_MAX = 10_000

_TEXT_MAX = 500


class MoveHistory(TrackedRows[str, RecentMovesRow]):
    """Moves of the pods of one cluster, by owner."""

    def __init__(self, cluster: str, policy: Policy) -> None:
        super().__init__("recent_moves", lambda row: row.owner, sorted_keys=True)
        self.cluster = cluster
        self.cooldown = Cooldown(cluster, policy)
        self._owner_counts: Counter[str] = Counter()
        """Number of owners that have left each node."""
        self._expiry_ms: dict[str, int] = {}
        """When the row of each owner expires (`_compute_expiry_ms`)."""
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Apply a policy, and forget dry moves if its evictions are not dry."""
        self.args = policy.moves
        self.cooldown.set_policy(policy)
        self.enabled = policy.remembers_moves
        for owner, row in sorted(self.rows.items()):
            after = row if policy.dry_run else _remove_dry_moves(row)
            if after is not row:
                self._replace(owner, after)
        self._expiry_ms = {owner: self._compute_expiry_ms(row) for owner, row in self.rows.items()}

    def shorten_freezes(self, now_ms: int) -> None:
        """Shorten freezes to the policy's limit."""
        for owner, row in sorted(self.rows.items()):
            latest_ms = now_ms + self._compute_freeze_ms(row.freezes)
            if row.frozen_until_ms > latest_ms:
                self._replace(owner, row.model_copy(update={"frozen_until_ms": latest_ms}))

    # --- events -----------------------------------------------------------------------------------

    def record_departure(
        self,
        owner: str,
        node: str,
        now_ms: int,
        why: str,
        *,
        dry_run: bool = False,
        replicas: int = 1,
    ) -> None:
        """Record that a command evicts a pod from a hot node. Too many moves freeze the pod's owner.

        Each of the owner's `replicas` may move once.
        """
        if not self.enabled:
            return
        row = self.rows.get(owner) or self._create_row(owner)
        move = RecentMove(source=node, left_at_ms=now_ms, why=why[:_TEXT_MAX], dry_run=dry_run)
        if not dry_run:
            self.cooldown.record_hot(node, now_ms)
        moves = (*self._select_relevant(row, now_ms), move)[-HISTORY_MAX:]
        row = row.model_copy(update={"moves": moves, "touched_at_ms": now_ms})
        recent = self._list_recent(row, now_ms)
        allowed = max(self.args.max_moves_per_owner, replicas)
        if len(recent) > allowed and row.frozen_until_ms <= now_ms:
            text = f"{len(recent)} moves within {self.args.loop_window_seconds} s, allowed are {allowed}"
            row = self._freeze(row, "count", text, now_ms, dry=any(move.dry_run for move in recent))
        self._replace(owner, row)

    def cancel_departure(
        self, owner: str, node: str, now_ms: int, *, dry_run: bool = False
    ) -> None:
        """Remove the newest departure from a node, because the pod stays or the dry move has ended."""
        row = self.rows.get(owner)
        if row is None:
            return
        for index in range(len(row.moves) - 1, -1, -1):
            move = row.moves[index]
            is_open = move.source == node and move.arrived_at_ms is None
            if is_open and move.dry_run == dry_run:
                break
        else:
            return
        moves = row.moves[:index] + row.moves[index + 1 :]
        update: dict[str, object] = {"moves": moves, "touched_at_ms": now_ms}
        if row.frozen_by == "count" and row.frozen_at_ms == move.left_at_ms:
            # The removed move had caused the freeze.
            update |= _build_unfrozen_fields(row.freezes - 1)
        self._replace(owner, row.model_copy(update=update))

    def record_arrival(self, owner: str, node: str, now_ms: int) -> None:
        """Record a new pod of an owner on a node. If the arrival completes a loop, freeze the owner."""
        row = self.rows.get(owner)
        if row is None:
            return
        recent = self._list_recent(row, now_ms)
        departures = (move for move in recent if move.target is None and not move.dry_run)
        departure = next(departures, None)
        if departure is None:
            return
        completed = departure.model_copy(update={"target": node, "arrived_at_ms": now_ms})
        moves = tuple(completed if move is departure else move for move in row.moves)
        row = row.model_copy(update={"moves": moves, "touched_at_ms": now_ms})
        path = find_loop(self._select_relevant(row, now_ms), completed)
        if path is not None and row.frozen_until_ms <= now_ms:
            nodes = " → ".join(path if len(path) <= 8 else (*path[:4], "…", *path[-3:]))
            text = f"its pods moved {nodes}"
            row = self._freeze(row, "circle", text, now_ms, dry=False)
        self._replace(owner, row)

    def tick(self, now_ms: int) -> None:
        """Drop expired rows, unless a node that the owner left has not cooled."""
        expired = [owner for owner, expiry_ms in self._expiry_ms.items() if expiry_ms <= now_ms]
        for owner in sorted(expired):
            if not self._select_relevant(self.rows[owner], now_ms):
                self._replace(owner, None)

    # --- queries ----------------------------------------------------------------------------------

    def find_avoided(self, owner: str, now_ms: int) -> frozenset[str]:
        """Return nodes that pods of the owner left, if they are hot or cooling."""
        row = self.rows.get(owner)
        if row is None or not self.enabled:
            return frozenset()
        sources = _list_sources(row)
        return frozenset(node for node in sources if self.cooldown.is_cooling(node, now_ms))

    def list_cooling(self, now_ms: int) -> list[str]:
        """Return nodes that moves have left, if they are hot or cooling."""
        if not self.enabled:
            return []
        return [node for node in self.cooldown.rows if self.cooldown.is_cooling(node, now_ms)]

    def explain_rest(
        self, owner: str, node: str, since_ms: int, rest_ms: int, now_ms: int
    ) -> str | None:
        """Return why a pod must stay on its node after a recent move; None if it need not stay.

        Args:
            owner: owner of the pod.
            node: node of the pod.
            since_ms: time when the pod came to the node.
            rest_ms: how long the pod must stay after the move, at most `loopWindowSeconds`.
            now_ms: log time.

        A pod that came to the target of a move after the departure counts as the replacement.
        """
        row = self.rows.get(owner)
        if row is None or not self.enabled:
            return None
        for move in row.moves:
            arrived_ms = move.arrived_at_ms
            if move.target != node or arrived_ms is None or since_ms < move.left_at_ms:
                continue
            # Do not count moves beyond the window: other pods decide how long a row keeps them.
            window_end_ms = move.left_at_ms + self.args.loop_window_seconds * 1000
            remaining_ms = min(arrived_ms + rest_ms, window_end_ms) - now_ms
            if remaining_ms > 0:
                ago_s, remaining_s = ceil_seconds(now_ms - arrived_ms), ceil_seconds(remaining_ms)
                return f"a move brought the pod {ago_s} s ago; it rests for {remaining_s} s more"
        return None

    def explain_freeze(self, owner: str, now_ms: int) -> str | None:
        """Return why pods of the owner must not move now; None if they may move."""
        row = self.rows.get(owner)
        if row is None or not self.enabled or row.frozen_until_ms <= now_ms:
            return None
        remaining_s = ceil_seconds(row.frozen_until_ms - now_ms)
        times = f", freeze {row.freezes} in a row" if row.freezes > 1 else ""
        return f"the owner is frozen for {remaining_s} s more{times}: {row.frozen_for}"

    # --- rows -------------------------------------------------------------------------------------

    def restore_row(self, row: RecentMovesRow) -> None:
        self._replace(row.owner, row)

    def _create_row(self, owner: str) -> RecentMovesRow:
        if len(self.rows) >= OWNERS_MAX:
            oldest = min(self.rows.values(), key=lambda row: (row.touched_at_ms, row.owner))
            self._replace(oldest.owner, None)
        return RecentMovesRow(cluster=self.cluster, owner=owner, touched_at_ms=0)

    def _replace(self, owner: str, row: RecentMovesRow | None) -> None:
        if row is not None and not row.moves and not row.freezes:
            row = None
        before = _list_sources(self.rows.get(owner))
        after = _list_sources(row)
        if row is None:
            self.drop(owner)
            self._expiry_ms.pop(owner, None)
        else:
            self.put(row)
            self._expiry_ms[owner] = self._compute_expiry_ms(row)
        self._owner_counts.update(after - before)
        for node in before - after:
            self._owner_counts[node] -= 1
            if not self._owner_counts[node]:
                del self._owner_counts[node]
                self.cooldown.drop(node)

    # --- rules ------------------------------------------------------------------------------------

    def _list_recent(self, row: RecentMovesRow, now_ms: int) -> list[RecentMove]:
        since_ms = now_ms - self.args.loop_window_seconds * 1000
        return [move for move in row.moves if move.left_at_ms > since_ms]

    def _select_relevant(self, row: RecentMovesRow, now_ms: int) -> tuple[RecentMove, ...]:
        """Return moves that are recent or from nodes that have not cooled. After a freeze, return all moves.

        A freeze may be longer than the window, and a loop may continue after the freeze.
        """
        if row.freezes and now_ms < self._compute_expiry_ms(row):
            return row.moves
        since_ms = now_ms - self.args.loop_window_seconds * 1000
        return tuple(
            move
            for move in row.moves
            if move.left_at_ms > since_ms
            or (not move.dry_run and self.cooldown.is_cooling(move.source, now_ms))
        )

    def _compute_expiry_ms(self, row: RecentMovesRow) -> int:
        """Return when a row may be dropped, if all nodes in it have cooled by then."""
        newest_ms = max((move.left_at_ms for move in row.moves), default=0)
        return max(newest_ms, row.frozen_until_ms) + self.args.loop_window_seconds * 1000

    def _compute_freeze_ms(self, times: int) -> int:
        return compute_wait_ms(
            self.args.initial_freeze_seconds, self.args.max_freeze_seconds, times
        )

    def _freeze(
        self, row: RecentMovesRow, rule: str, reason: str, now_ms: int, *, dry: bool
    ) -> RecentMovesRow:
        freezes = row.freezes + 1
        return row.model_copy(
            update={
                "freezes": freezes,
                "frozen_until_ms": now_ms + self._compute_freeze_ms(freezes),
                "frozen_at_ms": now_ms,
                "frozen_for": reason[:_TEXT_MAX],
                "frozen_by": rule,
                "frozen_dry": dry,
            }
        )


def _list_sources(row: RecentMovesRow | None) -> set[str]:
    """Return the nodes that the owner left, without dry moves."""
    return set() if row is None else {move.source for move in row.moves if not move.dry_run}


def _build_unfrozen_fields(freezes: int) -> dict[str, object]:
    return {
        "freezes": freezes,
        "frozen_until_ms": 0,
        "frozen_at_ms": 0,
        "frozen_for": "",
        "frozen_by": "",
        "frozen_dry": False,
    }


def _remove_dry_moves(row: RecentMovesRow) -> RecentMovesRow | None:
    """Return the row without dry moves and their freeze; None if nothing is left."""
    moves = tuple(move for move in row.moves if not move.dry_run)
    if len(moves) == len(row.moves) and not row.frozen_dry:
        return row
    update: dict[str, object] = {"moves": moves}
    if row.frozen_dry:
        update |= _build_unfrozen_fields(0)
    return row.model_copy(update=update) if moves or not row.frozen_dry else None


def find_loop(moves: Sequence[RecentMove], closing: RecentMove) -> list[str] | None:
    """Return the nodes of the loop that a move closes, from one node back to it; None if there is no loop.

    Args:
        moves: all moves of the owner in the order of departure; moves without an arrival are ignored.
        closing: a move that has arrived.
    """
    if closing.target is None:
        return None
    # Path and time of arrival for each node that can be reached from the end of the closing move.
    reached: dict[str, tuple[list[str], int]] = {closing.target: ([closing.target], 0)}
    for move in moves:
        if move is closing or move.target is None or move.arrived_at_ms is None:
            continue
        path, arrived_ms = reached.get(move.source, ([], 0))
        if path and arrived_ms <= move.left_at_ms and move.target not in reached:
            reached[move.target] = ([*path, move.target], move.arrived_at_ms)
    path, arrived_ms = reached.get(closing.source, ([], 0))
    if not path or arrived_ms > closing.left_at_ms:
        return None
    return [*path, closing.target]
