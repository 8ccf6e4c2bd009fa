"""How nodes stand in a round by risk, and what the round has found and planned, as it is reported."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from schemas.base.message import INT64_MAX
from schemas.policy import OVERUTILIZATION_RISK
from schemas.policy.sections.overutilization_risk import RiskResource
from streams.rebalance.candidates import Candidate, Phase
from streams.rebalance.columns import Columns
from streams.rebalance.outcome import (
    Costs,
    HotNodeOutcome,
    NodeStanding,
    PoolOutcome,
    PoolThresholds,
    Verdict,
)
from streams.rebalance.risk.pods import RiskPod
from streams.stage.arrays import IntArray

#: Name under which the rounds by risk are reported.
POOL = OVERUTILIZATION_RISK


class RiskReadings:
    """Readings of the nodes that one round looks at; positions are those of their rows."""

    def __init__(self, columns: Columns, rows: IntArray, resources: Sequence[RiskResource]) -> None:
        """`rows` are those of nodes whose metric says something of all resources."""
        self.names: list[str] = columns.names[rows].tolist()
        self.place = {name: place for place, name in enumerate(self.names)}
        """Position by name."""
        self._resources = resources
        which = [columns.universe.index[each.name] for each in resources]
        self._used = columns.usage[which][:, rows]
        self._capacity = columns.capacity[which][:, rows]

    def of(self, place: int) -> NodeStanding:
        """How a node stands."""
        used, limit, capacity = {}, {}, {}
        for index, each in enumerate(self._resources):
            used[each.name] = int(self._used[index, place])
            whole = capacity[each.name] = int(self._capacity[index, place])
            limit[each.name] = each.percent * whole // 100
        return NodeStanding(used, limit, capacity)

    def named(self, name: str, phase: Phase) -> NodeStanding | None:
        """How a node stands; none: it was not measured, or its prod pods alone are meant."""
        place = self.place.get(name)
        return None if place is None or phase != "node" else self.of(place)


class RiskRecord:
    """The outcome of one round, with the nodes whose pods were looked at."""

    def __init__(
        self,
        readings: RiskReadings,
        resources: Sequence[RiskResource],
        names: list[str],
        codes: NDArray[np.int8],
        *,
        targets: int,
    ) -> None:
        """Nothing is planned yet.

        Args:
            readings: of the nodes with a fresh metric.
            resources: that the risk is of.
            names: of all nodes that are looked at.
            codes: their classes, shape (names,).
            targets: how many nodes take pods.
        """
        self._readings = readings
        self._resources = tuple(resource.name for resource in resources)
        self.outcome = PoolOutcome(
            name=POOL,
            thresholds=_thresholds(resources),
            resources=self._resources,
            names=names,
            codes=codes,
            targets=targets,
            readings=readings.named,
        )
        self.hot: dict[int, HotNodeOutcome] = {}
        """Nodes whose pods are looked at, by position."""

    def begin(self, place: int, cost: float) -> HotNodeOutcome:
        """A node has its turn."""
        reading = self._readings.of(place)
        hot = HotNodeOutcome(
            name=self._readings.names[place],
            phase="node",
            rounds=0,
            acting=True,
            usage=reading.used,
            limits=reading.limit,
            capacity=reading.capacity,
            cost=cost,
        )
        self.hot[place] = hot
        self.outcome.hot.append(hot)
        return hot

    def stays(
        self, pod: RiskPod, gate: str, message: str, costs: Costs | None, target: int | None
    ) -> None:
        """A pod stays; gate and message say what keeps it, costs those of its best target."""
        name = None if target is None else self._readings.names[target]
        self.hot[pod.source].note(
            Verdict(pod.held.pod, gate, message, name, self._usage(pod), costs)
        )

    def candidate(self, pod: RiskPod, target: int, costs: Costs) -> Candidate:
        """A pod that is to leave, as the gate is asked about it."""
        hot, name = self.hot[pod.source], self._readings.names[target]
        return Candidate(
            held=pod.held,
            node=hot.name,
            pool=POOL,
            phase="node",
            reason=_reason(costs, name),
            target=name,
            usage=self._usage(pod),
            source_hot=self._readings.of(pod.source).is_hot,
        )

    def leaves(self, pod: RiskPod, candidate: Candidate, costs: Costs) -> None:
        """The gate lets a pod leave."""
        self.outcome.moves.append(candidate)
        self.hot[pod.source].note(
            Verdict(pod.held.pod, "", "", candidate.target, candidate.usage, costs)
        )

    def _usage(self, pod: RiskPod) -> dict[str, int]:
        """What is expected of a pod, at most what a record can hold."""
        return {
            name: min(max(0, int(mean)), INT64_MAX)
            for name, (mean, _) in zip(self._resources, pod.figures, strict=True)
        }


def _thresholds(resources: Sequence[RiskResource]) -> PoolThresholds:
    """From when on a node is hot, in percent."""
    high = {each.name: float(each.percent) for each in resources}
    return PoolThresholds(low={}, high=high, prod_low={}, prod_high={}, source="hotPercent")


def _reason(costs: Costs, target: str) -> str:
    """The reason of an eviction by risk."""
    return (
        f"node is at risk of overutilization, cost {costs.source_before:.3f} falls to "
        f"{costs.source_after:.3f}, that of {target} changes from {costs.target_before:.3f} to "
        f"{costs.target_after:.3f}: {costs.gain:.3f} less in all"
    )
