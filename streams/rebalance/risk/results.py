"""Collects the results of a round by risk in a `PoolOutcome`."""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.base.message import INT64_MAX
from schemas.policy import OVERUTILIZATION_RISK
from schemas.policy.sections.overutilization_risk import RiskResource
from streams.rebalance.candidates import Candidate, Gate
from streams.rebalance.columns import Columns
from streams.rebalance.outcome import (
    Costs,
    HotNodeOutcome,
    PoolOutcome,
    PoolReadings,
    PoolThresholds,
    Verdict,
)
from streams.rebalance.risk.pods import RiskPod
from streams.stage.arrays import IntArray


def read_nodes(columns: Columns, rows: IntArray, resources: Sequence[RiskResource]) -> PoolReadings:
    """Return usage, capacity and hot shares of measured nodes; hot shares are their limits."""
    indexes = [columns.reading_rules.index[resource.name] for resource in resources]
    capacity = columns.capacity[indexes][:, rows]
    percents = np.array([[resource.percent] for resource in resources])
    return PoolReadings(
        names=columns.names[rows].tolist(),
        resources=[resource.name for resource in resources],
        used={"node": columns.usage[indexes][:, rows]},
        # In two parts, because the product may exceed 64 bits.
        limits={"node": capacity // 100 * percents + capacity % 100 * percents // 100},
        capacity=capacity,
    )


class RiskResults:
    def __init__(
        self,
        readings: PoolReadings,
        resources: Sequence[RiskResource],
        names: list[str],
        codes: NDArray[np.int8],
        *,
        targets: int,
        memory: Mapping[str, int],
    ) -> None:
        """Start without moves; `names` are all nodes of the round, and `codes` their classes."""
        self._readings = readings
        self._resources = tuple(resource.name for resource in resources)
        self.outcome = PoolOutcome(
            name=OVERUTILIZATION_RISK,
            thresholds=_build_thresholds(resources),
            resources=self._resources,
            names=names,
            codes=codes,
            targets=targets,
            readings=readings,
            memory=memory,
        )
        self.hot: dict[int, HotNodeOutcome] = {}
        """Nodes that were searched for pods, by position."""

    def describe_usage(self, position: int) -> str:
        """Return a node and its usage, such as "n1 at cpu 88.0 %"."""
        reading = self._readings.get_readings(position, "node")
        shares = [
            f"{name} {100 * used / max(1, reading.capacity[name]):.1f} %"
            for name, used in reading.used.items()
        ]
        return f"{self._readings.names[position]} at {' and '.join(shares)}"

    def add_hot_node(self, position: int, cost: float) -> HotNodeOutcome:
        hot = HotNodeOutcome(
            name=self._readings.names[position],
            phase="node",
            rounds=0,
            abnormal=True,
            readings=self._readings.get_readings(position, "node"),
            cost=cost,
        )
        self.hot[position] = hot
        self.outcome.hot.append(hot)
        return hot

    def note_stay(self, pod: RiskPod, gate: Gate, costs: Costs | None, target: int | None) -> None:
        """Record the gate that stops a pod; `costs` are those of the move to the best target."""
        name = None if target is None else self._readings.names[target]
        self.hot[pod.source].note(
            Verdict(pod.held.pod, gate.name, gate.text, name, self._get_usage(pod), costs)
        )

    def build_candidate(self, pod: RiskPod, target: int, costs: Costs) -> Candidate:
        hot, name = self.hot[pod.source], self._readings.names[target]
        return Candidate(
            held=pod.held,
            node=hot.name,
            pool=OVERUTILIZATION_RISK,
            phase="node",
            reason=_describe_gain(costs, name),
            target=name,
            usage=self._get_usage(pod),
            source_hot=self._readings.get_readings(pod.source, "node").is_hot,
        )

    def note_move(self, pod: RiskPod, candidate: Candidate, costs: Costs) -> None:
        self.outcome.moves.append(candidate)
        self.hot[pod.source].note(
            Verdict(pod.held.pod, "", "", candidate.target, candidate.usage, costs)
        )

    def _get_usage(self, pod: RiskPod) -> dict[str, int]:
        """Return the expected usage of a pod, at most `INT64_MAX`."""
        return {
            name: min(max(0, int(mean)), INT64_MAX)
            for name, (mean, _) in zip(self._resources, pod.figures, strict=True)
        }


def _build_thresholds(resources: Sequence[RiskResource]) -> PoolThresholds:
    high = {resource.name: float(resource.percent) for resource in resources}
    return PoolThresholds(low={}, high=high, prod_low={}, prod_high={}, source="hotPercent")


def _describe_gain(costs: Costs, target: str) -> str:
    return (
        f"node is at risk of overutilization: its cost falls from {costs.source_before:.3f} to "
        f"{costs.source_after:.3f}, that of {target} changes from {costs.target_before:.3f} to "
        f"{costs.target_after:.3f}, {costs.gain:.3f} less in total"
    )
