"""What a node would use if no pod that is followed had left it or come to it.

A move is judged beside nodes that were as hot as its source. Under a lively load pods of other
moves leave and come to these too. What such a pod uses is known since its move was planned, so it
is worked out: added where it has left, deducted where it has come. Usage is an average over a
window, so a pod counts by the part of the window that has passed since; what had passed when the
move was made was in the figures by which they were as hot.

A node is compared with no longer where the usage of such a pod is not known, or where more pods
than `WORKED_OUT_MAX` would have to be worked out: the rest would be guesswork.
"""

from collections.abc import Iterable, Mapping

from schemas.moves import FollowedEvictionRow, Phase

#: Most pods that are worked out of a node's usage.
WORKED_OUT_MAX = 4


def left_alone(
    used: Mapping[str, int],
    node: str,
    phase: Phase,
    moves: Iterable[FollowedEvictionRow],
    since_ms: int,
    now_ms: int,
    window_ms: int,
) -> dict[str, int] | None:
    """What a node would use; none: that is not known.

    Args:
        used: what it uses, per resource; an average over a window.
        node: its name.
        phase: whether that is of all its pods, or of its prod pods alone.
        moves: those whose pods have left it or come to it.
        since_ms: the time from which on it would have been left alone.
        now_ms: when that was read.
        window_ms: length of the window.
    """
    amounts, worked_out = dict(used), 0
    for move in moves:
        parts = 0
        for end, at_ms, sign in (
            (move.source_node, move.evicted_at_ms, 1),
            (move.target_node, move.arrived_at_ms, -1),
        ):
            if end == node and at_ms is not None:
                passed = _within(now_ms - at_ms, window_ms) - _within(since_ms - at_ms, window_ms)
                parts += sign * passed
        if not parts:
            continue
        worked_out += 1
        # A pod that left a node that was hot as a whole may or may not be a prod pod.
        known = phase in ("node", move.phase) and used.keys() <= move.usage.keys()
        if not known or worked_out > WORKED_OUT_MAX:
            return None
        for name in amounts:
            amounts[name] += parts * move.usage[name] // window_ms
    return amounts


def _within(passed_ms: int, window_ms: int) -> int:
    return min(max(passed_ms, 0), window_ms)
