"""Parameters of the closed loop, with their units and bounds."""

from dataclasses import dataclass
from typing import Annotated

from pydantic import Field

#: Share of the nodes that requests fill at a mean load of 40 %, and its increase per point of load.
_FILL_AT_40 = 0.60
_FILL_PER_LOAD = (0.80 - 0.60) / (0.55 - 0.40)
#: Upper limit of requests: pods above it would wait forever.
_FILL_MAX = 0.95
#: Pods use at most this multiple of the memory that they request.
_MEMORY_SHARE_MAX = 10


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of runs; each run adds a day of the traces and a seed.

    pydantic checks the bounds of parameters from a command line.
    """

    scenario: str = "mixed"
    """Name of the scenario that the other parameters describe."""
    nodes: Annotated[int, Field(ge=2, le=20_000)] = 100
    """Number of nodes."""
    hours: Annotated[float, Field(ge=0.1, le=1_000)] = 24.0
    """Measured time."""
    filling_hours: Annotated[float, Field(ge=0, le=1_000)] = 2.0
    """Time before the measured time, in which the cluster fills. The initial pods arrive in the
    first half."""
    load: Annotated[float, Field(ge=0.01, le=0.9)] = 0.40
    """Mean demand for CPU, as a share of the nodes."""
    pod_divisor: Annotated[int, Field(ge=1, le=1_000)] = 4
    """Divisor of the pod sizes of the trace."""
    alike_share: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share of the pods that follow the traced machine of their owner, each pod with a different shift
    in time. Other pods follow random machines."""
    day_swing: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Share by which the CPU demand rises at the noon of an owner, and falls at its midnight."""
    day_spread_hours: Annotated[float, Field(ge=0, le=24)] = 0.0
    """Range of the owners' noons around the middle of the measured time."""
    budgeted_share: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Share of the owners with a disruption budget, which allows one disruption at a time."""
    life_median_hours: Annotated[float, Field(ge=0.01, le=10_000)] = 2.0
    """Median of the lifetimes of pods."""
    life_spread: Annotated[float, Field(ge=0, le=5)] = 1.4
    """Standard deviation of the logarithm of lifetimes."""
    life_min_s: Annotated[int, Field(ge=1, le=7 * 86_400)] = 300
    """Shortest lifetime."""
    memory_start: tuple[float, float] = (0.25, 0.60)
    """Range of the initial memory of a pod, as a share of its request."""
    memory_growth: tuple[float, float] = (0.0, 0.50)
    """Range of the growth of a pod's memory, as a share of its request; 63 % of the growth takes two
    hours."""
    system_share: Annotated[float, Field(ge=0, le=0.9)] = 0.0
    """Mean usage of the nodes themselves, as a share of their CPU and memory; `load` includes it.
    """
    sample_s: Annotated[int, Field(ge=1, le=600)] = 60
    """Time between two samples of a node."""
    step_s: Annotated[int, Field(ge=1, le=60)] = 10
    """Time between two steps of the world."""
    turn_s: Annotated[int, Field(ge=0, le=3_600)] = 0
    """Time between two turns. In a turn the stages read the tick and all records since the last
    turn. 0: each step is a turn."""
    lag_s: Annotated[int, Field(ge=0, le=3_600)] = 10
    """Delay of a sample until the stages read it."""

    def __post_init__(self) -> None:
        """Raise ValueError if parameters do not fit together."""
        if 60 % self.step_s:
            raise ValueError(f"step_s: found {self.step_s}; expected a divisor of 60, such as 10")
        for name in ("sample_s", "turn_s"):
            if getattr(self, name) % self.step_s:
                raise ValueError(
                    f"{name}: found {getattr(self, name)}; expected a multiple of step_s, {self.step_s}"
                )
        if self.system_share >= self.load:
            raise ValueError(
                f"system_share: found {self.system_share:g}; expected less than load, {self.load:g}"
            )
        for name in ("memory_start", "memory_growth"):
            low, high = getattr(self, name)
            if not 0 <= low <= high <= _MEMORY_SHARE_MAX:
                raise ValueError(
                    f"{name}: found {low:g},{high:g}; expected two numbers from 0 to "
                    f"{_MEMORY_SHARE_MAX}, the smaller one first"
                )

    @property
    def load_text(self) -> str:
        return f"{100 * self.load:g}"

    @property
    def fill(self) -> float:
        """Requests for CPU, as a share of the nodes."""
        return min(_FILL_MAX, max(0.05, _FILL_AT_40 + _FILL_PER_LOAD * (self.load - 0.40)))
