"""Small scenarios, and contenders for them."""

import numpy as np

from simulation.closed_loop.parameters import Parameters
from simulation.closed_loop.rules.view import Array, NodesView
from simulation.closed_loop.scenario import Scenario, draw_scenario
from simulation.closed_loop.stage_contender import StageContender
from simulation.closed_loop.traces import model_traces
from streams.in_process.pipeline import LocalPipeline

#: Evicts as soon as it may, from nodes that are not hot at all.
EAGER = """
mode: enforce
rebalance:
  highThresholds: {cpu: 45}
  lowThresholds: {cpu: 40}
  anomalyCondition: {consecutiveAbnormalities: 1}
migration:
  schedulerNames: [loadstream]
  maxMigratingPerWorkload: 100%
  maxUnavailablePerWorkload: 100%
  skipCheckExpectedReplicas: true
"""


def scenario(seed: int = 0, **parameters: object) -> Scenario:
    """A scenario of the built-in model: eight nodes for half an hour."""
    given = {"nodes": 8, "hours": 0.5, "filling_hours": 0.5, **parameters}
    return draw_scenario(Parameters(**given), seed, model_traces())  # type: ignore[arg-type]


def streamed(policy: str = "mode: enforce\n", name: str = "ours") -> StageContender:
    """Both stages under a policy."""
    return StageContender(name, policy, LocalPipeline)


class FirstWithRoom:
    """A rule that fills one node after the other."""

    def __init__(self) -> None:
        self.views: list[NodesView] = []

    def __call__(self, request: Array, view: NodesView, random: np.random.Generator) -> int | None:
        """The first node with room."""
        self.views.append(view)
        found = np.flatnonzero((view.requested + request <= view.allocatable).all(axis=1))
        return int(found[0]) if found.size else None


def quiet(_: float) -> None:
    """Takes progress and shows none."""
