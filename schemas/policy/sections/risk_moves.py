"""`riskMoves`: arguments of the strategy OverutilizationRisk, which moves the pods whose move lowers the
risk of overutilization most.

The cost of a node is that of the score of the same name (`overutilizationRisk`); with several
resources it is the sum of their costs, each multiplied by its weight and divided by the largest
weight. Limits of simultaneous moves, maintenance windows and protections apply as to all moves.
"""

from typing import Annotated

from pydantic import Field

from schemas.policy.parts import PolicyPart, int_range

_DAY_MINUTES = 1_440


class RiskMoveArgs(PolicyPart):
    """Arguments of the moves by risk."""

    gain: Annotated[float, Field(ge=0.001, le=100)] = 0.07
    """Minimum decrease of the sum of the nodes' costs by a move.

    A node that is certainly hot by the resource of the largest weight costs 1 or more.
    """
    max_moves_per_round: Annotated[int, int_range(1, 250)] = 5
    """Most pods that one round moves."""
    min_pod_age_minutes: Annotated[int, int_range(0, 7 * _DAY_MINUTES)] = 10
    """Pods that have been on their node for a shorter time are not moved: their usage is not known
    well."""
    rest_minutes: Annotated[int, int_range(0, 7 * _DAY_MINUTES)] = 60
    """A moved pod is not moved again for this time, at most `moves.loopWindowSeconds` after the
    move began."""
