"""One pool's part of a round as loadstream makes it: its nodes judged and counted, before any pod
is looked at.

In come the pool, its thresholds in force and the columns of all nodes; out come the classes of
nodes, the hot ones with their counts, those that act, and the targets. `planning` goes on from
here.
"""

from dataclasses import dataclass

import numpy as np

from schemas.policy import LowNodeLoadArgs
from streams.inventory.arrays import BoolArray, IntArray
from streams.rebalance.candidates import Phase
from streams.rebalance.counters import Counters
from streams.rebalance.inputs import (
    PodFilter,
    RoundInput,
    fresh_metric,
    over_text,
)
from streams.rebalance.node_arrays import Universe
from streams.rebalance.order import by_usage
from streams.rebalance.outcome import (
    BOTH_LOW,
    HIGH,
    LOW,
    PROD_HIGH,
    PROD_LOW,
    SKIPPED,
    HotNode,
    PoolOutcome,
    Thresholds,
)
from streams.rebalance.pool_readings import PoolReadings
from streams.rebalance.pools import (
    Limits,
    Pool,
    PoolNodes,
    classify,
    in_force,
    limits_of,
    mean_percentages,
)


@dataclass(frozen=True, slots=True)
class Standing:
    """What all pools have in common, in all rounds under one policy."""

    args: LowNodeLoadArgs
    universe: Universe
    pod_filter: PodFilter
    counters: Counters


class PoolTurn:
    """One pool's part of a round."""

    def __init__(
        self,
        standing: Standing,
        pool: Pool,
        thresholds: Thresholds,
        given: RoundInput,
        members: BoolArray,
        fresh: BoolArray,
    ) -> None:
        self.standing, self.pool, self.given = standing, pool, given
        self.thresholds = thresholds
        columns = given.columns
        rows = np.flatnonzero(fresh)
        self.nodes = nodes = PoolNodes(columns, rows, pool.resources, standing.universe)
        self.limits: Limits = limits_of(thresholds, nodes)
        self.codes: IntArray = classify(nodes, self.limits)
        self.names: list[str] = columns.names[rows].tolist()
        self.readings = PoolReadings(columns, nodes, thresholds, self.limits)
        self.acting: dict[Phase, list[int]] = {}
        """Positions of the nodes that act, in the order of their turns."""
        all_rows = np.flatnonzero(members)
        codes = np.full(all_rows.size, SKIPPED, dtype=np.int8)
        codes[np.searchsorted(all_rows, rows)] = self.codes
        self.outcome = PoolOutcome(
            name=pool.name,
            thresholds=in_force(thresholds, nodes),
            resources=nodes.resources,
            names=columns.names[all_rows].tolist(),
            codes=codes,
            means=self._means(),
            rounds_needed=pool.condition.consecutive_abnormalities,
            readings=self.readings.named,
        )

    def _means(self) -> dict[str, float]:
        """Mean usage in percent; of nothing measured there is none."""
        if not self.names:
            return {}
        means = mean_percentages(self.nodes, self.nodes.usage)
        return dict(zip(self.nodes.resources, means, strict=True))

    def count(self) -> bool:
        """Count the round; whether nodes act, whose pods are to be looked at."""
        if not self.pool.resources:
            self.outcome.ended = "the pool has no thresholds"
            return False
        self._count("node", HIGH)
        if self.limits.prod_high is not None:
            self._count("prod", PROD_HIGH)
        why = self._ends()
        if why is not None:
            self.outcome.ended = why
        return why is None

    def _ends(self) -> str | None:
        """Why no pod is looked at; None: pods are (L3)."""
        if not self.outcome.names:
            return "the pool has no node"
        if not self.names:
            return f"no node of the pool has {fresh_metric(self.pool.resources)}"
        if not self.outcome.hot:
            return "no node is above a high threshold"
        if not any(hot.acting for hot in self.outcome.hot):
            needed = self.pool.condition.consecutive_abnormalities
            return f"no node has been above a high threshold for {needed} rounds in a row"
        self.targets = self._targets()
        self.outcome.targets = targets = self.targets.size
        least = self.standing.args.number_of_nodes
        if targets > least:
            return None
        if self.thresholds.without_target:
            self.targets = self.targets[:0]
            return None
        if not targets:
            return "no node is below all low thresholds"
        return f"{targets} nodes are below the low thresholds, numberOfNodes asks for more than {least}"

    # --- nodes ----------------------------------------------------------------------------------

    def _count(self, phase: Phase, code: int) -> None:
        """Count the round for nodes that are over, and for those that no longer are."""
        counters, now_ms = self.standing.counters, self.given.now_ms
        watch = (self.pool.name, phase)
        over = np.flatnonzero(self.codes == code)
        hot = {self.names[position] for position in over.tolist()}
        for name in counters.watched(watch):
            if name not in hot and self.readings.position(name) is not None:
                counters.calm(name, watch, self.pool.condition, now_ms)
        used, high = self.readings.used(phase), self.readings.high(phase)
        order = by_usage(self.nodes, used, over, self.pool.weights)
        # One conversion for all of them: each costs as much for one node as for hundreds.
        figures = zip(
            order.tolist(),
            used[:, order].T.tolist(),
            high[:, order].T.tolist(),
            self.nodes.capacity[:, order].T.tolist(),
            strict=True,
        )
        notes = [self._note(phase, *each) for each in figures]
        self.outcome.hot += [hot for hot in notes if hot.acting]
        self.outcome.hot += [hot for hot in notes if not hot.acting]
        self.acting[phase] = [
            position for position, hot in zip(order.tolist(), notes, strict=True) if hot.acting
        ]

    def _note(
        self, phase: Phase, position: int, used: list[int], limits: list[int], capacity: list[int]
    ) -> HotNode:
        name = self.names[position]
        condition = self.pool.condition
        counter = self.standing.counters.hot(
            name, (self.pool.name, phase), condition, self.given.now_ms
        )
        acting = counter.since_ms is not None
        needed = condition.consecutive_abnormalities
        reading = self.readings.of(used, limits, capacity)
        names, percents = self.nodes.resources, self.readings.percents(limits, capacity, phase)
        return HotNode(
            name=name,
            phase=phase,
            rounds=counter.abnormal,
            acting=acting,
            usage=reading.used,
            limits=reading.limit,
            capacity=reading.capacity,
            over=over_text(phase, names, used, limits, capacity, percents),
            ended="" if acting else f"over for {counter.abnormal} of {needed} rounds in a row",
        )

    def _targets(self) -> IntArray:
        """Positions of the nodes that may take pods.

        Not those that are abnormal, if calm just now.
        """
        low = np.isin(self.codes, (LOW, BOTH_LOW, PROD_LOW))
        for name in self.standing.counters.abnormal(self.pool.name):
            position = self.readings.position(name)
            if position is not None:
                low[position] = False
        return np.flatnonzero(low)
