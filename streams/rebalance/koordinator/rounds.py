"""One pool in a round as Koordinator makes it: classes, marks, and when it ends
(`compat: koordinator`).

Steps are L1 to L11 of docs/upstream.md, those of evictions in `evictions`; what surprises stands in
`streams.rebalance.koordinator.rules`.
"""

from collections.abc import Sequence

import numpy as np

from streams.inventory.arrays import BoolArray, IntArray
from streams.rebalance.candidates import Phase
from streams.rebalance.inputs import (
    RoundInput,
    named,
    positions,
)
from streams.rebalance.koordinator.evictions import Evictions
from streams.rebalance.koordinator.pool_usage import PoolUsage
from streams.rebalance.koordinator.pools import koordinator_in_force
from streams.rebalance.koordinator.standing import Standing
from streams.rebalance.outcome import (
    BOTH_LOW,
    HIGH,
    LOW,
    PROD_HIGH,
    PROD_LOW,
    SKIPPED,
    HotNode,
    PoolOutcome,
)
from streams.rebalance.pools import Pool, PoolNodes, classify


class PoolTurn:
    """One pool's part of a round."""

    def __init__(
        self,
        standing: Standing,
        pool: Pool,
        given: RoundInput,
        members: BoolArray,
        fresh: BoolArray,
    ) -> None:
        self.standing, self.pool, self.given = standing, pool, given
        columns = given.columns
        rows = np.flatnonzero(fresh)
        # A resource that is in `low` alone is over as soon as it is used at all (B5.3).
        self.nodes = nodes = PoolNodes(
            columns, rows, sorted(pool.thresholds.low), standing.universe
        )
        self.usage = PoolUsage(pool, nodes)
        self.codes: IntArray = classify(nodes, self.usage.limits)
        all_rows = np.flatnonzero(members)
        codes = np.full(all_rows.size, SKIPPED, dtype=np.int8)
        codes[np.searchsorted(all_rows, rows)] = self.codes
        self.outcome = PoolOutcome(
            name=pool.name,
            thresholds=koordinator_in_force(pool.thresholds, nodes),
            resources=nodes.resources,
            names=[columns.nodes[row].name for row in all_rows.tolist()],
            codes=codes,
        )
        self.names = [columns.nodes[row].name for row in rows.tolist()]
        self.evictions = Evictions(standing, pool, given, self.usage, self.outcome)

    def run(self) -> bool:
        """Mark, order and evict; False if the round ended early (L3)."""
        high = list(positions(self.codes == HIGH))
        prod_high = list(positions(self.codes == PROD_HIGH))
        if not self.outcome.names:
            return self._ends("the pool has no node")
        if not high and not prod_high:
            return self._ends("no node is above a high threshold")
        acting = self._acting(high, "node")
        prod_acting = self._acting(prod_high, "prod")
        if not acting and not prod_acting:
            return self._ends("no node has been above a high threshold for long enough")
        low, prod_low, both = (
            list(positions(self.codes == code)) for code in (LOW, PROD_LOW, BOTH_LOW)
        )
        self.outcome.targets = targets = len(low) + len(prod_low) + len(both)
        if not targets:
            return self._ends("no node is below all low thresholds")
        self._reset([*low, *both], "node")
        self._reset(prod_low, "prod")
        if targets <= self.standing.args.number_of_nodes:
            return self._ends(
                f"{targets} nodes are below the low thresholds; more than numberOfNodes "
                f"{self.standing.args.number_of_nodes} are needed"
            )
        self.evictions.run(acting, prod_acting, low, prod_low, both)
        now_ms = self.given.now_ms
        for position in acting:
            self.standing.detectors.mark_normal(self.names[position], "node", now_ms)
        for position in prod_acting:
            self.standing.detectors.mark_normal(self.names[position], "prod", now_ms)
        return True

    def _ends(self, why: str) -> bool:
        self.outcome.ended = why
        return False

    # --- detectors ------------------------------------------------------------------------------

    def _acting(self, chosen: Sequence[int], phase: Phase) -> list[int]:
        """The nodes that have been over for long enough; all if one round is (B3.1)."""
        condition = self.pool.condition
        acting, notes = [], []
        for position in self.evictions.order(chosen, phase):
            name = self.names[position]
            abnormal = condition.consecutive_abnormalities == 1
            marks = self.standing.detectors.rounds(name, phase) + 1
            if not abnormal:
                abnormal = self.standing.detectors.mark_abnormal(
                    name, phase, self.pool.index, self.given.now_ms
                )
            if abnormal:
                acting.append(position)
            # The mark that begins the anomalous state sets their count back.
            rounds = self.standing.detectors.rounds(name, phase) or marks
            notes.append(self._note(position, phase, rounds, acting=abnormal))
        self.outcome.hot += [hot for hot in notes if hot.acting]
        self.outcome.hot += [hot for hot in notes if not hot.acting]
        return acting

    def _reset(self, chosen: Sequence[int], phase: Phase) -> None:
        for position in chosen:
            self.standing.detectors.reset(self.names[position], phase, self.given.now_ms)

    def _note(self, position: int, phase: Phase, rounds: int, *, acting: bool) -> HotNode:
        name = self.names[position]
        limits = self.usage.high(phase)[:, position].tolist()
        needed = self.pool.condition.consecutive_abnormalities
        return HotNode(
            name=name,
            phase=phase,
            rounds=rounds,
            acting=acting,
            usage=named(self.nodes.resources, self.usage.now(phase)[position]),
            limits=named(self.nodes.resources, limits),
            capacity=named(self.nodes.resources, self.nodes.capacity[:, position].tolist()),
            over=self.usage.over_text(position, phase),
            ended="" if acting else f"over in {rounds} rounds, more than {needed} are needed",
        )
