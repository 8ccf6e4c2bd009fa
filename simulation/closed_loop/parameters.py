"""Everything that a closed loop can be asked for, by name, with units; and the scenarios."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

#: Requests fill this share of the nodes where their mean load is to be 40 % ...
_FILL_AT_40 = 0.60
#: ... and so much more for each point of load more.
_FILL_PER_LOAD = (0.80 - 0.60) / (0.55 - 0.40)
#: No more than this is requested: what is over would wait for ever.
_FILL_MAX = 0.95
#: Pods have at most this share of the memory that they request.
MEMORY_SHARE_MAX = 10
#: Bounds of what is one number, both included: what lies beyond says nothing of any cluster.
BOUNDS: Mapping[str, tuple[float, float]] = {
    "nodes": (2, 20_000),
    "hours": (0.1, 1_000),
    "filling_hours": (0, 1_000),
    "load": (0.01, 0.9),
    "fill_share": (0.01, 1),
    "pod_divisor": (1, 1_000),
    "owners_per_node": (0.01, 100),
    "owner_spread": (0, 5),
    "alike_share": (0, 1),
    "day_swing": (0, 1),
    "day_spread_hours": (0, 24),
    "budgeted_share": (0, 1),
    "life_median_hours": (0.01, 10_000),
    "life_spread": (0, 5),
    "life_min_s": (1, 10**9),
    "life_max_hours": (0.01, 10**6),
    "memory_growth_hours": (0.01, 1_000),
    "system_share": (0, 0.9),
    "sample_s": (1, 600),
    "step_s": (1, 60),
    "turn_s": (0, 3_600),
    "lag_s": (0, 3_600),
    "command_lag_s": (0, 3_600),
}


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of runs; each run adds a day of the traces and a seed."""

    scenario: str = "mixed"
    """Name of the scenario that the other parameters make."""
    nodes: int = 100
    """Number of nodes."""
    hours: float = 24.0
    """Time that is measured."""
    filling_hours: float = 2.0
    """Time before that, in which the cluster fills; pods that run from the beginning come within
    its first half."""
    load: float = 0.40
    """Mean demand for CPU, as a share of the nodes."""
    fill_share: float | None = None
    """Requests for CPU, as a share of the nodes; none: as `fill` says."""
    pod_divisor: int = 4
    """Pods are this many times smaller than the trace's."""
    owners_per_node: float = 1.2
    """Number of owners, per node."""
    owner_spread: float = 1.0
    """Spread of the logarithm of how many replicas owners have."""
    alike_share: float = 0.0
    """Share of the pods that are like the machine which their owner's other pods are like, each from
    a time of its own; the others are unlike each other."""
    day_swing: float = 0.0
    """Pods want this share more CPU in the middle of their owner's day, and less in its night."""
    day_spread_hours: float = 0.0
    """The middles of the owners' days lie within so many hours around that of the measured time."""
    budgeted_share: float = 0.5
    """Share of the owners with a disruption budget, which lets one pod go at a time."""
    life_median_hours: float = 2.0
    """Median of the lifetimes of pods."""
    life_spread: float = 1.4
    """Spread of the logarithm of pods' lives."""
    life_min_s: int = 300
    """Shortest lifetime."""
    life_max_hours: float = 168.0
    """Longest lifetime."""
    memory_start: tuple[float, float] = (0.25, 0.60)
    """Range of the memory that a pod has at its start, as a share of its request."""
    memory_growth: tuple[float, float] = (0.0, 0.50)
    """Range of what it has more in the end."""
    memory_growth_hours: float = 2.0
    """Time in which it has grown by 63 % of that."""
    system_share: float = 0.0
    """What nodes use themselves, as a mean share of their CPU and of their memory; `load` includes
    it."""
    sample_s: int = 60
    """Time between two samples of a node; nodes are sampled in turns."""
    step_s: int = 10
    """Time between two steps of the world."""
    turn_s: int = 0
    """Time between two turns of the stages, in which they get the tick of the clock and all records
    since the last one; 0: each step is a turn."""
    lag_s: int = 10
    """Time from a sample until it is read."""
    command_lag_s: int = 0
    """Time from a command until it is carried out, rounded up to a step. From a request to its binding
    a worker and a binder take less than a second, so that it is none by default."""

    def find_problem(self) -> str | None:
        """Return what is wrong, as a sentence with parameter, value and what is expected; or None."""
        for name, (least, most) in BOUNDS.items():
            value = getattr(self, name)
            if value is not None and not least <= value <= most:
                return f"{name}: found {value:g}; expected a number from {least:g} to {most:g}"
        if 60 % self.step_s:
            return f"step_s: found {self.step_s}; expected a part of a minute, such as 10"
        if self.sample_s % self.step_s:
            return f"sample_s: found {self.sample_s}; expected a multiple of step_s, {self.step_s}"
        if self.turn_s % self.step_s:
            return f"turn_s: found {self.turn_s}; expected a multiple of step_s, {self.step_s}"
        if self.life_min_s > 3600 * self.life_max_hours:
            return f"life_min_s: found {self.life_min_s}; expected at most life_max_hours"
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
        if self.fill_share is not None:
            return self.fill_share
        return min(_FILL_MAX, max(0.05, _FILL_AT_40 + _FILL_PER_LOAD * (self.load - 0.40)))


#: Scenarios: the loads at which each is run by default, in percent, and the parameters that differ from
#: those of `mixed`. Sizes of pods are shares of the published ones, of which 3 fit on a node.
SCENARIOS: Mapping[str, tuple[tuple[float, ...], Mapping[str, Any]]] = {
    # Replicas of an owner alike, with day and night, which differ between owners.
    "web": ((50,), {"alike_share": 1.0, "day_swing": 0.5, "day_spread_hours": 12.0}),
    # 13 unlike pods on a node.
    "mixed": ((40, 55), {}),
    # Pods that live for 15 minutes.
    "batch": ((50,), {"life_median_hours": 0.25, "life_spread": 0.5, "life_min_s": 60}),
    # 3 pods on a node.
    "big-pods": ((50,), {"pod_divisor": 1}),
    # 30 pods on a node.
    "small-pods": ((55,), {"pod_divisor": 10}),
    # Half of the load is that of the nodes themselves.
    "own-load": ((55,), {"system_share": 0.275}),
    # Pods use more memory than they request, some much more.
    "memory": ((40,), {"memory_start": (0.2, 2.6), "memory_growth": (0.0, 1.0)}),
    # The load of all pods rises and falls together.
    "peak": ((40,), {"day_swing": 0.4}),
}
