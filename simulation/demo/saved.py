"""What the run saves against other ways: hot-node minutes, and the evictions that they took.

All have the same pods, which come when they did, on the same base load, from the beginning to the
end of the run. A node is hot where its mean usage over one bin of the grid is above the share
from which the run's own policy calls it hot, whichever way it is.
"""

from dataclasses import dataclass

from simulation.demo.alternative import koordinator_thresholds
from simulation.demo.grid import UsageGrid
from simulation.demo.rebalance_summary import hot_nodes
from simulation.demo.session import Session


@dataclass(frozen=True, slots=True)
class Way:
    """One way of running the cluster, and its result."""

    name: str
    hot_minutes: float
    """Minutes in which nodes were hot, added up over all nodes."""
    evictions: int
    waiting: int | None
    """Pods without a node at the end; none: not counted."""


def ways(session: Session, by_requests: UsageGrid, koordinator: Session | None) -> tuple[Way, ...]:
    """The run itself first; `koordinator`: the same under Koordinator's policy, if it was run."""
    minutes = session.grid.bin_ms / 60_000

    def hot_minutes(grid: UsageGrid) -> float:
        return float(hot_nodes(session, grid).sum()) * minutes

    found = [
        Way(
            "loadstream",
            hot_minutes(session.grid),
            len(session.evictions),
            len(session.observed.waiting()),
        ),
        Way("by requests alone (LeastAllocated)", hot_minutes(by_requests), 0, None),
    ]
    if koordinator is not None:
        evictions, waiting = len(koordinator.evictions), len(koordinator.observed.waiting())
        hot = hot_minutes(koordinator.grid)
        low, high = koordinator_thresholds(session.relief.hot_above)
        name = f"Koordinator, LowNodeLoad {low:.0f}/{high:.0f}"
        found.append(Way(name, hot, evictions, waiting))
    return tuple(found)
