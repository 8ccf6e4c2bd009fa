"""Detects loops in the moves of an owner's pods.

A loop is a chain of moves that returns to its first node: A → B → A, A → B → C → A, or A → A for a pod
that came straight back. Each move begins on the node, and after the time, where the one before arrived.
Moves of different replicas may form a loop, because such moves relieve no node.
"""

from collections.abc import Sequence

from schemas.messages.moves import RecentMove


def find_loop(moves: Sequence[RecentMove], closing: RecentMove) -> list[str] | None:
    """Return the nodes of the loop that a move closes, first and last the same; None if it closes none.

    Args:
        moves: all moves of the owner in the order in which they began; those that have not arrived are
            ignored.
        closing: a move that has arrived.
    """
    if closing.target is None:
        return None
    # Nodes that can be reached from the end of the closing move: path, and time of arrival.
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
