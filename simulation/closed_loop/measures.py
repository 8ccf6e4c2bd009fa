"""Measures of a run: hot node-minutes, waiting pods, evictions, and the quality of predictions.

After the filling, each node is measured once a minute. Demand is the usage of pods as if the capacity
of their node were unlimited.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from simulation.closed_loop.scenario import Array, Scenario
from simulation.closed_loop.usage import Moment, get_plan_index
from simulation.cluster.cluster import Eviction, Observer
from simulation.cluster.kubelet import PodEvent
from simulation.cluster.pods import PodPlan

Shares = npt.NDArray[np.float32]

#: A node is hot above these shares of its CPU and memory.
HOT_CPU, HOT_MEMORY = 0.75, 0.80
MINUTE_MS = 60_000
#: A pod has bounced if it is evicted again within this time, or returns to its node.
BOUNCE_MS = 3_600_000
#: Upper bounds of the bins of predicted probabilities; the last bin has no upper bound.
PREDICTION_BOUNDS = (0.001, 0.01, 0.03, 0.1, 0.3)
#: A prediction is compared with the demand this many minutes later: the length of a step of the CPU trace.
PREDICTED_MINUTES = 5


@dataclass(frozen=True, slots=True)
class PredictionBin:
    """Predictions of similar probability, compared with the later demand."""

    predictions: int = 0
    """Number of nodes and minutes for which there is a prediction."""
    expected: float = 0.0
    """Sum of the predicted probabilities."""
    hot: int = 0
    """Number of predictions whose node was hot later."""


@dataclass(frozen=True, slots=True)
class Result:
    """The result of a run."""

    figures: Mapping[str, int | float]
    """Figures by name, in display order."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counts that the contender reports, by name."""
    predictions: tuple[PredictionBin, ...] = ()
    """One entry per bin; empty if the contender predicts nothing."""


@dataclass(slots=True)
class _Move:
    eviction: Eviction
    bounced: bool = False


class Recorder(Observer):
    """Records the state of a world each minute, and its events."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._begin_ms = scenario.measured_ms
        sizes = [(machine.millicores, machine.memory_bytes) for machine in scenario.machines]
        self._allocatable = np.array(sizes, dtype=np.float64)
        self._cpu: list[Shares] = []
        self._memory: list[Shares] = []
        self._predicted: list[Sequence[float]] = []
        self._requested_ms: dict[str, int] = {}
        self._waits_ms: list[int] = []
        self._placed = 0
        self._evictions = 0
        self._moves_by_replacement: dict[str, _Move] = {}
        """The eviction that caused a replacement, by the replacement's uid."""
        self._last_moves: dict[int, _Move] = {}
        """The last eviction, by plan."""
        self._bounces = 0

    def record_minute(self, moment: Moment, predicted: Sequence[float] = ()) -> None:
        """Record demand, and each node's predicted probability of being hot, if any."""
        if moment.at_ms < self._begin_ms:
            return
        if predicted:
            self._predicted.append(predicted)
        shares = (moment.demand / self._allocatable).astype(np.float32)
        self._cpu.append(shares[:, 0])
        self._memory.append(shares[:, 1])

    def on_request(self, plan: PodPlan) -> None:
        self._requested_ms[plan.pod.uid] = plan.at_ms

    def on_pod_event(self, event: PodEvent) -> None:
        if event.event != "bound":
            return
        uid = event.pod.uid
        requested_ms = self._requested_ms.pop(uid)
        if event.at_ms >= self._begin_ms:
            self._placed += 1
            self._waits_ms.append(event.at_ms - max(requested_ms, self._begin_ms))
        move = self._moves_by_replacement.get(uid)
        if move is not None and event.pod.node == move.eviction.node:
            self._count_bounce(move, event.at_ms)

    def on_eviction(self, eviction: Eviction) -> None:
        """Record an eviction, and whether the pod had moved shortly before."""
        plan = get_plan_index(eviction.pod.uid)
        move, last_move = _Move(eviction), self._last_moves.get(plan)
        self._last_moves[plan] = move
        if eviction.at_ms >= self._begin_ms:
            self._evictions += 1
        if last_move is not None and eviction.at_ms - last_move.eviction.at_ms < BOUNCE_MS:
            self._count_bounce(last_move, eviction.at_ms)
        if eviction.replacement is not None:
            self._moves_by_replacement[eviction.replacement.pod.uid] = move

    def _count_bounce(self, move: _Move, at_ms: int) -> None:
        """Count a move whose pod returned or was evicted again, once per move."""
        if at_ms >= self._begin_ms and not move.bounced:
            move.bounced = True
            self._bounces += 1

    def compute_result(self, counts: Mapping[str, int]) -> Result:
        cpu, memory = np.array(self._cpu), np.array(self._memory)
        hot = cpu > HOT_CPU
        millicores = self._allocatable[:, 0]
        size = millicores / millicores.mean()
        end_ms = self._scenario.end_ms
        open_waits_ms = [
            end_ms - max(at_ms, self._begin_ms)
            for at_ms in self._requested_ms.values()
            if at_ms < end_ms
        ]
        figures: dict[str, float] = {
            "hot_cpu_minutes": int(hot.sum()),
            "hot_cpu_weighted_minutes": round(float((hot @ size).sum()), 1),
            "hot_memory_minutes": int((memory > HOT_MEMORY).sum()),
            "over_capacity_minutes": int((cpu > 1.0).sum()),
            "p99_cpu": round(float(np.percentile(cpu, 99.0)), 4),
            "placed_pods": self._placed,
            "waiting_pods": len(open_waits_ms),
            "waiting_pod_minutes": (sum(self._waits_ms) + sum(open_waits_ms)) / MINUTE_MS,
            "evictions": self._evictions,
            "bounces": self._bounces,
        }
        predictions = _count_predictions(np.array(self._predicted), hot) if self._predicted else ()
        return Result(figures, dict(counts), predictions)


def _count_predictions(predicted: Array, hot: npt.NDArray[np.bool_]) -> tuple[PredictionBin, ...]:
    """Compare predictions with later states; both arrays have shape (minutes, nodes)."""
    predicted, hot = predicted[:-PREDICTED_MINUTES].ravel(), hot[PREDICTED_MINUTES:].ravel()
    bins = np.digitize(predicted, PREDICTION_BOUNDS)
    count = len(PREDICTION_BOUNDS) + 1
    columns = [np.bincount(bins, weights, count) for weights in (None, predicted, hot)]
    return tuple(
        PredictionBin(int(number), round(float(expected), 3), int(came_true))
        for number, expected, came_true in zip(*columns, strict=True)
    )
