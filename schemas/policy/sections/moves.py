"""`moves`: memory of moves, which prevents pods from moving in circles. An addition of loadstream.

A pod that left a hot node is kept away from the node until it has cooled. An owner whose pods move in
circles is frozen. Times are log time. Each further freeze doubles, from the initial to the maximum
duration.
"""

from collections.abc import Iterable
from typing import Annotated

from schemas.messages.moves import HISTORY_MAX
from schemas.policy.parts import Conflict, PolicyPart, find_wrong_order, int_range

_DAY_S = 86_400
_Seconds = Annotated[int, int_range(1, 7 * _DAY_S)]


class MoveArgs(PolicyPart):
    """Memory of moves, freezing, and the outcomes of moves."""

    enabled: bool = True
    """False: moves are reported, but no pod is kept away from a node and no owner is frozen."""
    cooling_seconds: _Seconds = 300
    """Time after a node was last hot in which it gets no pod of an owner whose pod left the node; at
    least two intervals."""
    cooling_metrics: Annotated[int, int_range(0, 100)] = 2
    """The node gets such a pod again only after this many metrics that do not show it as hot."""
    loop_window_seconds: _Seconds = 3_600
    """Time for which the moves of an owner's pods are counted; older moves are forgotten."""
    max_moves_per_owner: Annotated[int, int_range(1, HISTORY_MAX - 1)] = 4
    """Moves of an owner's pods in that time, or one per replica if that is more. A further move
    freezes the owner. Owners of 32 replicas or more are frozen only by loops."""
    initial_freeze_seconds: _Seconds = 600
    """Length of the first freeze. Pods of a frozen owner are not moved."""
    max_freeze_seconds: _Seconds = _DAY_S
    """Length of the longest freeze."""
    follow_seconds: _Seconds = 600
    """How long the source and target of a move are observed before its outcome is reported."""

    def conflicts(self) -> Iterable[Conflict]:
        return find_wrong_order(self, "initial_freeze_seconds", "max_freeze_seconds")
