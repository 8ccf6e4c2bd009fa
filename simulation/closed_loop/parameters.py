"""Parameters of the closed loop, with their units and bounds, and the named scenarios."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Share of the nodes that requests fill at a mean load of 40 %, and its increase per point of load.
_FILL_AT_40 = 0.60
_FILL_PER_LOAD = (0.80 - 0.60) / (0.55 - 0.40)
#: Upper limit of requests: pods above it would wait forever.
_FILL_MAX = 0.95
#: Pods use at most this multiple of the memory that they request.
MEMORY_SHARE_MAX = 10
#: Bounds of the parameters that are one number, both included.
BOUNDS: Mapping[str, tuple[float, float]] = {
    "nodes": (2, 20_000),
    "hours": (0.1, 1_000),
    "filling_hours": (0, 1_000),
    "load": (0.01, 0.9),
    "pod_divisor": (1, 1_000),
    "alike_share": (0, 1),
    "day_swing": (0, 1),
    "day_spread_hours": (0, 24),
    "budgeted_share": (0, 1),
    "life_median_hours": (0.01, 10_000),
    "life_spread": (0, 5),
    "life_min_s": (1, 7 * 86_400),
    "system_share": (0, 0.9),
    "sample_s": (1, 600),
    "step_s": (1, 60),
    "turn_s": (0, 3_600),
    "lag_s": (0, 3_600),
}


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of runs; each run adds a day of the traces and a seed."""

    scenario: str = "mixed"
    """Name of the scenario that the other parameters describe."""
    nodes: int = 100
    """Number of nodes."""
    hours: float = 24.0
    """Measured time."""
    filling_hours: float = 2.0
    """Time before the measured time, in which the cluster fills. The initial pods arrive in the
    first half."""
    load: float = 0.40
    """Mean demand for CPU, as a share of the nodes."""
    pod_divisor: int = 4
    """Divisor of the pod sizes of the trace."""
    alike_share: float = 0.0
    """Share of the pods that follow the traced machine of their owner, each pod with a different shift
    in time. Other pods follow random machines."""
    day_swing: float = 0.0
    """Share by which the CPU demand rises at the noon of an owner, and falls at its midnight."""
    day_spread_hours: float = 0.0
    """Range of the owners' noons around the middle of the measured time."""
    budgeted_share: float = 0.5
    """Share of the owners with a disruption budget, which allows one disruption at a time."""
    life_median_hours: float = 2.0
    """Median of the lifetimes of pods."""
    life_spread: float = 1.4
    """Standard deviation of the logarithm of lifetimes."""
    life_min_s: int = 300
    """Shortest lifetime."""
    memory_start: tuple[float, float] = (0.25, 0.60)
    """Range of the initial memory of a pod, as a share of its request."""
    memory_growth: tuple[float, float] = (0.0, 0.50)
    """Range of the growth of a pod's memory, as a share of its request; 63 % of the growth takes two
    hours."""
    system_share: float = 0.0
    """Mean usage of the nodes themselves, as a share of their CPU and memory; `load` includes it.
    """
    sample_s: int = 60
    """Time between two samples of a node."""
    step_s: int = 10
    """Time between two steps of the world."""
    turn_s: int = 0
    """Time between two turns. In a turn the stages read the tick and all records since the last
    turn. 0: each step is a turn."""
    lag_s: int = 10
    """Delay of a sample until the stages read it."""

    def find_problem(self) -> str | None:
        """Return a sentence about the first invalid parameter; None if all are valid."""
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name)
            if not least <= value <= most:
                return f"{name}: found {value:g}; expected a number from {least:g} to {most:g}"
        if 60 % self.step_s:
            return f"step_s: found {self.step_s}; expected a divisor of 60, such as 10"
        if self.sample_s % self.step_s:
            return f"sample_s: found {self.sample_s}; expected a multiple of step_s, {self.step_s}"
        if self.turn_s % self.step_s:
            return f"turn_s: found {self.turn_s}; expected a multiple of step_s, {self.step_s}"
        if not 0 <= self.system_share < self.load:
            return (
                f"system_share: found {self.system_share:g}; expected from 0 to less than load, "
                f"{self.load:g}"
            )
        for name in ("memory_start", "memory_growth"):
            low, high = getattr(self, name)
            if not 0 <= low <= high <= MEMORY_SHARE_MAX:
                return (
                    f"{name}: found {low:g},{high:g}; expected two numbers from 0 to "
                    f"{MEMORY_SHARE_MAX}, the smaller one first"
                )
        return None

    @property
    def load_text(self) -> str:
        return f"{100 * self.load:g}"

    @property
    def fill(self) -> float:
        """Requests for CPU, as a share of the nodes."""
        return min(_FILL_MAX, max(0.05, _FILL_AT_40 + _FILL_PER_LOAD * (self.load - 0.40)))


#: Default loads in percent, and the parameters that differ from `mixed`, by name of the scenario.
SCENARIOS: Mapping[str, tuple[tuple[float, ...], Mapping[str, Any]]] = {
    # All pods of an owner have similar demand, which follows the owner's time of day.
    "web": ((50,), {"alike_share": 1.0, "day_swing": 0.5, "day_spread_hours": 12.0}),
    # 13 different pods per node.
    "mixed": ((40, 55), {}),
    # Pods that live for 15 minutes.
    "batch": ((50,), {"life_median_hours": 0.25, "life_spread": 0.5, "life_min_s": 60}),
    # 3 pods per node, with the published sizes.
    "big-pods": ((50,), {"pod_divisor": 1}),
    # 30 pods per node.
    "small-pods": ((55,), {"pod_divisor": 10}),
    # Half of the load comes from the nodes themselves.
    "own-load": ((55,), {"system_share": 0.275}),
    # Pods use more memory than they request, some much more.
    "memory": ((40,), {"memory_start": (0.2, 2.6), "memory_growth": (0.0, 1.0)}),
    # The load of all pods rises and falls together.
    "peak": ((40,), {"day_swing": 0.4}),
}
