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

    min_saved_minutes: Annotated[float, Field(ge=0.1, le=_DAY_MINUTES)] = 7
    """Hot minutes that a move must be expected to save at least: the drop of the sum of the nodes'
    costs, times the minutes for which a pod is expected to run on. Few pods of short-lived jobs
    therefore move. A minute far beyond the hot share counts more than one minute."""
    max_moves_per_round: Annotated[int, int_range(1, 250)] = 5
    """Pods that one round moves at most."""
    min_pod_age_minutes: Annotated[int, int_range(0, 7 * _DAY_MINUTES)] = 10
    """Pods that have been on their node for less stay: too little is known of them."""
    rest_minutes: Annotated[int, int_range(0, 7 * _DAY_MINUTES)] = 60
    """A pod that came by a move stays for so long, and not longer than `moves.loopWindowSeconds`
    after the move began."""
