"""`riskMoves`: arguments of the strategy OverutilizationRisk, which moves the pods whose move lowers the
risk of overutilization most.

The score of the same name (`overutilizationRisk`) defines the cost of a node; with several resources it
is the sum of their costs. Limits of simultaneous moves, maintenance windows and protections apply as to
all moves.
"""

from typing import Annotated

from pydantic import Field

from schemas.policy.parts import PolicyPart, int_range

_DAY_MINUTES = 1_440


class RiskMoveArgs(PolicyPart):
    """Arguments of the moves by risk."""

    min_saved_minutes: Annotated[float, Field(ge=0.1, le=_DAY_MINUTES)] = 7
    """A pod is moved only if the move is expected to save this many hot minutes: the drop of the sum
    of the nodes' costs, times the minutes for which the pod is expected to keep running. So
    short-lived pods rarely move. A minute far above the hot share counts as more than one minute."""
    max_moves_per_round: Annotated[int, int_range(1, 250)] = 5
    """Most pods that one round moves."""
    min_pod_age_minutes: Annotated[int, int_range(0, 7 * _DAY_MINUTES)] = 10
    """How long a pod must have been on its node; the usage of younger pods is not known well."""
    rest_minutes: Annotated[int, int_range(0, 7 * _DAY_MINUTES)] = 60
    """How long a moved pod is not moved again; limited to `moves.loopWindowSeconds` after the start
    of its move."""
