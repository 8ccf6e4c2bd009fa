"""`moves`: memory of moves, which prevents pods from moving in circles. An addition of loadstream.

A pod that left a hot node is kept away from the node until it has cooled. An owner whose pods move in
circles is frozen. Times are log time. Each further freeze doubles, from the initial to the maximum
duration.
"""

from collections.abc import Iterable
from typing import Annotated

from schemas.messages.moves import HISTORY_MAX
from schemas.policy.parts import Conflict, PolicyPart, int_range

_DAY_S = 86_400
_Seconds = Annotated[int, int_range(1, 7 * _DAY_S)]


class MoveArgs(PolicyPart):
    """Memory of moves, freezing, and the outcomes of moves."""

    enabled: bool = True
    """false: no pod is kept away, and no owner is frozen. Outcomes of moves are still reported."""
    cooling_seconds: _Seconds = 300
    """A node is cooling for this long after it was hot: the length of an average window."""
    cooling_metrics: Annotated[int, int_range(0, 100)] = 2
    """A node is cooling until this many fresh metrics show it as not hot."""
    loop_window_seconds: _Seconds = 3_600
    """Older moves are forgotten."""
    max_moves_per_owner: Annotated[int, int_range(1, HISTORY_MAX - 1)] = 4
    """Moves of one owner's pods within the window before it is frozen, or the number of its
    replicas if larger."""
    initial_freeze_seconds: _Seconds = 600
    max_freeze_seconds: _Seconds = _DAY_S
    follow_seconds: _Seconds = 600
    """Time from an eviction to the report of its outcome: two average windows."""

    def conflicts(self) -> Iterable[Conflict]:
        first, longest = self.initial_freeze_seconds, self.max_freeze_seconds
        if longest < first:
            low, high = "initialFreezeSeconds", "maxFreezeSeconds"
            at = high if "max_freeze_seconds" in self.model_fields_set else low
            message = f"{low} is {first} and {high} is {longest}; the maximum must not be smaller"
            yield Conflict((at,), message, (low, high))
