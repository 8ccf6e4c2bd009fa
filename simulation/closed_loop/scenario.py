"""A scenario: nodes, pods in the order of their arrival, and the demand of each pod.

A scenario is drawn from a seed and is the same for all contenders: arrival, lifetime and CPU demand of a
pod do not depend on its node.

    nodes      drawn from a list, without replacement if there are enough
    pods       sizes drawn from a list with replacement, divided by a whole number
    owners     lognormal numbers of replicas; some owners have a disruption budget
    lifetimes  lognormal. Lifetimes of the initial pods are drawn with probabilities proportional to their
               length, and a uniform share of each remains
    arrivals   Poisson, with a rate that keeps the mean requests of the initial pods
    CPU        request x percent of a traced machine, shifted in time per pod x daily swing of the owner
               x a factor, which is calibrated to give the mean load
    system     usage of the nodes themselves: a traced machine, shifted in time, x a share of the node
    memory     request x (start + growth x (1 - exp(-age / time)))
"""

from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from schemas.messages.pods import OwnerReference, Pod
from simulation.closed_loop.parameters import Parameters
from simulation.closed_loop.system_usage import STEP_S as SYSTEM_STEP_S
from simulation.closed_loop.system_usage import STEPS as SYSTEM_STEPS
from simulation.closed_loop.system_usage import Shape, model_system_usage
from simulation.closed_loop.traces import STEP_S, STEPS, Traces
from simulation.cluster.machines import Machine
from simulation.cluster.pods import PRIORITY_CLASS_LABEL, PROD, SCHEDULER, PodPlan, make_container

Array = npt.NDArray[np.float64]
Indexes = npt.NDArray[np.int64]

CLUSTER = "closed-loop"
#: Default start of a run: 2026-03-02 00:00 UTC.
BEGIN_MS = 1_772_409_600_000
HOUR_MS = 3_600_000
#: Namespaces of owners with and without a disruption budget.
BUDGETED, FREE = "guarded", "plain"
#: Priority of the pods, in Koordinator's band of prod.
_PRIORITY = 9500
#: Number of owners for each node. The logarithm of an owner's number of replicas has a standard deviation of 1.
_OWNERS_PER_NODE = 1.2
#: Time constant of the growth of memory: 63 % of the growth takes this time.
_MEMORY_TIME_MS = 2.0 * HOUR_MS
#: Longest lifetime.
_LIFE_MAX_HOURS = 168.0
#: Number of lifetimes from which length-biased lifetimes are drawn.
_LIFETIMES = 50_000

_DAY_S = 86_400

#: Numbers that give each random generator a different seed.
_NODES, _PODS, _LIFE, _USAGE, _SYSTEM, _DAYS = 100, 101, 102, 103, 104, 105


@dataclass(frozen=True, slots=True)
class Demands:
    """Demand of pods; arrays are indexed by plan."""

    cpu_percent: npt.NDArray[np.float32]
    """CPU of the traced machines; shape (machines, STEPS)."""
    machine: Indexes
    shift_s: Indexes
    """Time of the machine's day at the beginning of the run."""
    cpu_millicores: Array
    """CPU of a pod per percent of its machine."""
    memory_bytes: Array
    memory_start: Array
    memory_growth: Array
    day_swing: float
    noon_s: Array
    """Noon of the owner, since the beginning."""

    def compute_cpu(self, pods: Indexes, at_ms: Indexes | int) -> Array:
        """Return the CPU demand of pods with these indexes in millicores, `at_ms` after the
        beginning."""
        step = (np.asarray(at_ms) // 1000 + self.shift_s[pods]) // STEP_S % STEPS
        demand: Array = self.cpu_millicores[pods] * self.cpu_percent[self.machine[pods], step]
        if self.day_swing:
            days = (np.asarray(at_ms) / 1000 - self.noon_s[pods]) / _DAY_S
            demand = demand * (1.0 + self.day_swing * np.cos(2.0 * np.pi * days))
        return demand

    def compute_memory(self, pods: Indexes, age_ms: Array) -> Array:
        """Return the memory demand of pods with these indexes and ages, in bytes."""
        grown = 1.0 - np.exp(-age_ms / _MEMORY_TIME_MS)
        demand: Array = self.memory_bytes[pods] * (
            self.memory_start[pods] + self.memory_growth[pods] * grown
        )
        return demand


@dataclass(frozen=True, slots=True)
class SystemDemands:
    """Demand of the nodes themselves; arrays are indexed by node."""

    shape: Shape
    machine: Indexes
    shift_s: Indexes
    """Time of the machine's days at the beginning of the run."""
    amounts: Array
    """Demand at the mean of all machines, in millicores and bytes; shape (nodes, 2)."""

    def compute(self, at_ms: int) -> Array:
        """Return the demand `at_ms` after the beginning; shape (nodes, 2)."""
        step = (at_ms // 1000 + self.shift_s) // SYSTEM_STEP_S % SYSTEM_STEPS
        demand: Array = self.amounts * self.shape[:, self.machine, step].T
        return demand


@dataclass(frozen=True, slots=True)
class Scenario:
    """Nodes, pods and demands of one seed."""

    parameters: Parameters
    seed: int
    machines: tuple[Machine, ...]
    plans: tuple[PodPlan, ...]
    """Pods in the order of their arrival."""
    demands: Demands
    factor: float
    """Calibrated: CPU demand of a pod at 100 % of its machine, as a multiple of its request."""
    requested_share: float
    """Mean CPU requests during the measured time, as a share of the nodes."""
    system: SystemDemands | None = None
    """Demand of the nodes themselves, if any."""
    cluster: str = CLUSTER
    begin_ms: int = BEGIN_MS

    @property
    def measured_ms(self) -> int:
        return self.begin_ms + round(self.parameters.filling_hours * HOUR_MS)

    @property
    def end_ms(self) -> int:
        return self.measured_ms + round(self.parameters.hours * HOUR_MS)


class ImpossibleScenario(ValueError):
    """No scenario fits the parameters and traces; the message names the parameter."""


def draw_scenario(
    parameters: Parameters,
    seed: int,
    traces: Traces,
    cluster: str = CLUSTER,
    begin_ms: int = BEGIN_MS,
) -> Scenario:
    """Draw the scenario of a seed.

    Args:
        parameters: parameters of the scenario.
        seed: determines nodes, pods and their demand.
        traces: sizes and usage to draw from.
        cluster: name of the cluster.
        begin_ms: start of the scenario.

    Raises:
        ImpossibleScenario: the nodes themselves use the whole load, or pods are too small to divide.
    """
    machines = _draw_machines(parameters, seed, traces)
    millicores = sum(machine.millicores for machine in machines)
    at_ms, life_ms, sizes = _draw_pods(parameters, seed, traces, millicores)
    owners = _draw_owners(parameters, seed, len(at_ms))
    plans = tuple(
        _make_plan(number, begin_ms, *pod_values, parameters)
        for number, pod_values in enumerate(
            zip(at_ms.tolist(), life_ms.tolist(), sizes.tolist(), owners.tolist(), strict=True)
        )
    )
    demands = _draw_demands(parameters, seed, traces, sizes, owners)
    mean_demand, requested = _compute_means(parameters, at_ms, life_ms, sizes, demands)
    system = (
        _draw_system_demands(parameters, seed, traces, machines)
        if parameters.system_share
        else None
    )
    system_cpu = 0.0 if system is None else _compute_mean_system_cpu(parameters, system)
    pod_cpu = parameters.load * millicores - system_cpu
    if pod_cpu <= 0:
        raise ImpossibleScenario(
            f"system_share: found {parameters.system_share:g}; with seed {seed} the nodes themselves use "
            f"{system_cpu / millicores:.1%} of their CPU in the measured time, so a load of "
            f"{parameters.load_text}% leaves no CPU for pods; expected a smaller share, or more load"
        )
    factor = pod_cpu / mean_demand if mean_demand else 0.0
    calibrated = replace(demands, cpu_millicores=demands.cpu_millicores * factor)
    return Scenario(
        parameters, seed, machines, plans, calibrated, factor, requested / millicores, system, cluster, begin_ms
    )  # fmt: skip


def _draw_machines(parameters: Parameters, seed: int, traces: Traces) -> tuple[Machine, ...]:
    random = np.random.default_rng([seed, _NODES])
    count, available = parameters.nodes, len(traces.nodes)
    indexes = random.choice(available, count, replace=count > available)
    width = max(3, len(str(count)))
    return tuple(
        Machine(f"node-{number:0{width}}", *traces.nodes[index].tolist())
        for number, index in enumerate(indexes)
    )


def _draw_pods(
    parameters: Parameters, seed: int, traces: Traces, millicores: int
) -> tuple[Indexes, Indexes, Indexes]:
    """Return arrival times and lifetimes in ms, and sizes of shape (pods, 2)."""
    random = np.random.default_rng([seed, _PODS])
    lifetimes = _draw_lifetimes(parameters, np.random.default_rng([seed, _LIFE]), _LIFETIMES)
    sizes = traces.pods // parameters.pod_divisor
    if not sizes[:, 0].all():
        raise ImpossibleScenario(
            f"pod_divisor: found {parameters.pod_divisor}; expected at most "
            f"{traces.pods[:, 0].min()}, the millicores of the smallest pod of the traces"
        )
    mean_size = float(sizes[:, 0].mean())
    # Pods are drawn until they request enough. One draw is too few if most pods are far below the mean.
    initial_cpu = parameters.fill * millicores
    guess = int(initial_cpu / mean_size * 1.5) + 50
    initial_sizes = sizes[random.choice(len(sizes), guess)]
    while initial_sizes[:, 0].sum() < initial_cpu:
        initial_sizes = np.concatenate([initial_sizes, sizes[random.choice(len(sizes), guess)]])
    initial_count = int(np.searchsorted(np.cumsum(initial_sizes[:, 0]), initial_cpu)) + 1
    initial_lifetimes = random.choice(lifetimes, initial_count, p=lifetimes / lifetimes.sum())
    remaining_ms = initial_lifetimes * random.random(initial_count)
    filling_ms = parameters.filling_hours * HOUR_MS
    initial_at_ms = np.sort(random.uniform(0, filling_ms / 2, initial_count))
    # Later pods arrive as often as pods end on average.
    length_ms = filling_ms + parameters.hours * HOUR_MS
    later_count = int(random.poisson(initial_count / lifetimes.mean() * length_ms))
    at_ms = np.concatenate([initial_at_ms, np.sort(random.uniform(0, length_ms, later_count))])
    life_ms = np.concatenate([remaining_ms, random.choice(lifetimes, later_count)])
    all_sizes = np.concatenate(
        [initial_sizes[:initial_count], sizes[random.choice(len(sizes), later_count)]]
    )
    order = np.argsort(at_ms, kind="stable")
    life_ms = np.maximum(life_ms, 1000.0)
    return at_ms[order].astype(np.int64), life_ms[order].astype(np.int64), all_sizes[order]


def _draw_lifetimes(parameters: Parameters, random: np.random.Generator, count: int) -> Array:
    lifetimes = parameters.life_median_hours * np.exp(
        parameters.life_spread * random.standard_normal(count)
    )
    bounded: Array = HOUR_MS * np.clip(lifetimes, parameters.life_min_s / 3600, _LIFE_MAX_HOURS)
    return bounded


def _draw_owners(parameters: Parameters, seed: int, pods: int) -> Indexes:
    random = np.random.default_rng([seed, _PODS, 1])
    count = max(1, round(_OWNERS_PER_NODE * parameters.nodes))
    weights = np.exp(random.standard_normal(count))
    drawn: Indexes = random.choice(count, pods, p=weights / weights.sum())
    return drawn


def _make_plan(
    number: int,
    begin_ms: int,
    at_ms: int,
    life_ms: int,
    size: list[int],
    owner: int,
    parameters: Parameters,
) -> PodPlan:
    requests = dict(zip(("cpu", "memory"), size, strict=True))
    name, owner_name = f"pod-{number:06}", f"owner-{owner:04}"
    # Spreads budgets evenly: with a share of one half, every second owner has a budget.
    share = parameters.budgeted_share
    budgeted = int((owner + 1) * share) > int(owner * share)
    pod = Pod(
        namespace=BUDGETED if budgeted else FREE,
        name=name,
        uid=name,
        scheduler=SCHEDULER,
        priority=_PRIORITY,
        labels={"app": owner_name, PRIORITY_CLASS_LABEL: PROD},
        owners=(
            OwnerReference(kind="ReplicaSet", name=owner_name, uid=owner_name, controller=True),
        ),
        containers=(make_container(requests),),
        created_at_ms=begin_ms + at_ms,
    )
    return PodPlan(pod, begin_ms + at_ms, life_ms, requests)


def _draw_demands(
    parameters: Parameters, seed: int, traces: Traces, sizes: Indexes, owners: Indexes
) -> Demands:
    random = np.random.default_rng([seed, _USAGE])
    pods, machines = len(sizes), len(traces.cpu_percent)
    machine = random.choice(machines, pods)
    owner_machine = random.choice(machines, int(owners.max()) + 1)
    is_alike = random.random(pods) < parameters.alike_share
    spread_s = 3600 * parameters.day_spread_hours
    middle_s = 3600 * (parameters.filling_hours + parameters.hours / 2)
    noon_s = middle_s + spread_s * np.random.default_rng([seed, _DAYS]).uniform(
        -0.5, 0.5, len(owner_machine)
    )
    return Demands(
        cpu_percent=traces.cpu_percent,
        machine=np.where(is_alike, owner_machine[owners], machine),
        shift_s=random.integers(0, STEP_S * STEPS, pods),
        cpu_millicores=sizes[:, 0] / 100.0,
        memory_bytes=sizes[:, 1].astype(np.float64),
        memory_start=random.uniform(*parameters.memory_start, pods),
        memory_growth=random.uniform(*parameters.memory_growth, pods),
        day_swing=parameters.day_swing,
        noon_s=noon_s[owners],
    )


def _draw_system_demands(
    parameters: Parameters, seed: int, traces: Traces, machines: tuple[Machine, ...]
) -> SystemDemands:
    random = np.random.default_rng([seed, _SYSTEM])
    shape = model_system_usage() if traces.system is None else traces.system
    sizes = np.array([(m.millicores, m.memory_bytes) for m in machines], dtype=np.float64)
    return SystemDemands(
        shape=shape,
        machine=random.choice(shape.shape[1], len(machines)),
        shift_s=random.integers(0, SYSTEM_STEP_S * SYSTEM_STEPS, len(machines)),
        amounts=parameters.system_share * sizes,
    )


def _compute_mean_system_cpu(parameters: Parameters, system: SystemDemands) -> float:
    """Return the mean CPU demand of all nodes themselves during the measured time, in millicores."""
    times = _list_measured_times(parameters)
    return float(np.mean([system.compute(at_ms).sum(axis=0)[0] for at_ms in times]))


def _list_measured_times(parameters: Parameters) -> range:
    """Return the times since the beginning at which means are taken."""
    begin = round(parameters.filling_hours * HOUR_MS)
    return range(begin, begin + round(parameters.hours * HOUR_MS), STEP_S * 1000)


def _compute_means(
    parameters: Parameters, at_ms: Indexes, life_ms: Indexes, sizes: Indexes, demands: Demands
) -> tuple[float, float]:
    """Return mean CPU demand and mean CPU requests during the measured time in millicores, if every pod
    is placed on arrival."""
    times = _list_measured_times(parameters)
    demand = requested = 0.0
    for now_ms in times:
        alive = np.flatnonzero((at_ms <= now_ms) & (now_ms < at_ms + life_ms))
        demand += float(demands.compute_cpu(alive, now_ms).sum())
        requested += float(sizes[alive, 0].sum())
    return demand / max(1, len(times)), requested / max(1, len(times))
