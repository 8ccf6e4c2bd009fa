"""Everything that a closed loop can be asked for, by name, with units."""

from dataclasses import dataclass

#: Requests fill this share of the nodes where their mean load is to be 40 % ...
_FILL_AT_40 = 0.60
#: ... and so much more for each point of load more.
_FILL_PER_LOAD = (0.80 - 0.60) / (0.55 - 0.40)
#: No more than this is requested: what is over would wait for ever.
_FILL_MAX = 0.95


@dataclass(frozen=True, slots=True)
class Parameters:
    """Parameters of the runs; each run adds its seed."""

    nodes: int = 100
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
    owner_spread: float = 1.0
    """Spread of the logarithm of how many replicas owners have."""
    alike_share: float = 0.0
    """Share of the pods that use what their owner's other pods use; the others are unlike each
    other."""
    budgeted_share: float = 0.5
    """Share of the owners with a disruption budget, which lets one pod go at a time."""
    life_median_hours: float = 2.0
    life_spread: float = 1.4
    """Spread of the logarithm of pods' lives."""
    life_min_s: int = 300
    life_max_hours: float = 168.0
    memory_start: tuple[float, float] = (0.25, 0.60)
    """Range of the memory that a pod has at its start, as a share of its request."""
    memory_growth: tuple[float, float] = (0.0, 0.50)
    """Range of what it has more in the end."""
    memory_growth_hours: float = 2.0
    """Time in which it has grown by 63 % of that."""
    sample_s: int = 60
    """Time between two samples of a node; nodes are sampled in turns."""
    step_s: int = 10
    """Time between two steps of the world: ticks of the clock."""
    lag_s: int = 10
    """Time from a sample until it is read."""
    command_lag_s: int = 5
    """Time from a command until it is carried out, rounded up to a step."""

    @property
    def fill(self) -> float:
        """Requests for CPU, as a share of the nodes."""
        if self.fill_share is not None:
            return self.fill_share
        return min(_FILL_MAX, max(0.05, _FILL_AT_40 + _FILL_PER_LOAD * (self.load - 0.40)))
