"""The world of one run: the simulated cluster of a scenario under one contender.

Each contender has a separate world, with the same pods and arrival times. In each step pods end, new pods
request nodes, and then the contender acts. The world is measured once a minute.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

from simulation.closed_loop.measures import MINUTE_MS, Recorder, Result
from simulation.closed_loop.scenario import BUDGETED, HOUR_MS, Scenario
from simulation.closed_loop.usage import Usage
from simulation.cluster.cluster import SimulatedCluster


class World:
    """A simulated cluster, its future pods, and the usage of all pods."""

    def __init__(self, scenario: Scenario) -> None:
        self.scenario = scenario
        self.cluster = SimulatedCluster(
            scenario.cluster, scenario.machines, scenario.begin_ms, frozenset({BUDGETED})
        )
        self.usage = Usage(scenario)
        self.cluster.observers.append(self.usage)
        self._next_plan = 0

    def advance(self, now_ms: int) -> None:
        """End pods whose lifetime is over, and let new pods request nodes."""
        self.cluster.advance(now_ms)
        plans = self.scenario.plans
        while self._next_plan < len(plans) and plans[self._next_plan].at_ms <= now_ms:
            self.cluster.request_node(plans[self._next_plan])
            self._next_plan += 1

    def list_sampled_nodes(self, now_ms: int) -> range:
        """Return the indexes of the nodes that are sampled in the current step: one group of nodes."""
        parameters = self.scenario.parameters
        groups = max(1, parameters.sample_s // parameters.step_s)
        group = (now_ms - self.scenario.begin_ms) // (1000 * parameters.step_s) % groups
        return range(group, len(self.scenario.machines), groups)


class Contender(Protocol):
    """Decides on which nodes pods are placed, and which pods are evicted."""

    name: str

    def begin(self, world: World) -> None:
        """Start, before anything has happened in the world."""
        ...

    def step(self, now_ms: int) -> None:
        """Act on everything that has happened in the world so far."""
        ...

    def predict_hot(self) -> Sequence[float]:
        """Return the probability that each node is hot; empty if the contender does not predict it."""
        ...

    def get_counts(self) -> dict[str, int]:
        """Return counts by name for the result of the run."""
        ...


def run(scenario: Scenario, contender: Contender, progress: Callable[[float], None]) -> Result:
    """Run a whole scenario; call `progress` with the number of simulated hours, once per hour."""
    world = World(scenario)
    recorder = Recorder(scenario)
    world.cluster.observers.append(recorder)
    contender.begin(world)
    step_ms = 1000 * scenario.parameters.step_s
    for now_ms in range(scenario.begin_ms, scenario.end_ms, step_ms):
        world.advance(now_ms)
        contender.step(now_ms)
        passed_ms = now_ms - scenario.begin_ms
        if passed_ms % MINUTE_MS == 0:
            recorder.record_minute(world.usage.measure(now_ms), contender.predict_hot())
        if passed_ms % HOUR_MS == 0:
            progress(passed_ms / HOUR_MS)
    return recorder.compute_result(contender.get_counts())
