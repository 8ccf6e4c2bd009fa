"""Small scenarios and contenders for them."""

import numpy as np

from simulation.closed_loop.parameters import Parameters
from simulation.closed_loop.rules.view import Array, NodesView
from simulation.closed_loop.scenario import Scenario, draw_scenario
from simulation.closed_loop.stage_contender import StageContender
from simulation.closed_loop.traces import model_traces
from streams.in_process.pipeline import LocalPipeline

#: Evicts as soon as allowed, also from nodes that are not hot.
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
    """Draw a scenario of the built-in model: eight nodes for half an hour."""
    fields = {"nodes": 8, "hours": 0.5, "filling_hours": 0.5, **parameters}
    return draw_scenario(Parameters(**fields), seed, model_traces())  # type: ignore[arg-type]


def stages(policy: str = "mode: enforce\n", name: str = "ours") -> StageContender:
    """Return the contender that runs both stages under a policy."""
    return StageContender(name, policy, LocalPipeline())


class FirstWithRoom:
    """A rule that fills one node after the other."""

    def __init__(self) -> None:
        self.views: list[NodesView] = []

    def __call__(self, request: Array, view: NodesView, random: np.random.Generator) -> int | None:
        self.views.append(view)
        fitting = np.flatnonzero((view.requested + request <= view.allocatable).all(axis=1))
        return int(fitting[0]) if fitting.size else None


def ignore(_: float) -> None:
    """Ignore progress."""
