"""Whether an owner's pods move in a loop.

A loop is a chain of moves, each beginning where and after the one before it arrived, whose last one
ends on the node where the first one began: A → B → A, A → B → C → A, or A → A, which is a pod that
came straight back. Moves of different replicas may form one: no node is relieved by that.
"""

from collections.abc import Sequence

from schemas.messages.moves import RecentMove


def loop_of(moves: Sequence[RecentMove], closing: RecentMove) -> list[str] | None:
    """The nodes of the loop that a move closes, first and last the same; None: it closes none.

    Args:
        moves: earlier and later moves of the owner in the order in which they began; those that
            have not arrived, and `closing` itself, do not matter.
        closing: a move that has arrived.
    """
    if closing.target is None:
        return None
    # Nodes that can be reached from the one where the closing move ends: path, and when it got
    # there.
    reached: dict[str, tuple[list[str], int]] = {closing.target: ([closing.target], 0)}
    for move in moves:
        if move is closing or move.target is None or move.arrived_at_ms is None:
            continue
        begun = reached.get(move.source)
        if begun is not None and begun[1] <= move.left_at_ms and move.target not in reached:
            reached[move.target] = ([*begun[0], move.target], move.arrived_at_ms)
    found = reached.get(closing.source)
    if found is None or found[1] > closing.left_at_ms:
        return None
    return [*found[0], closing.target]
