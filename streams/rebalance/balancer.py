"""Rounds of rebalancing over a cluster's inventory: what the cluster stage calls.

    refresh(inventory, most)     at ticks: pack what has changed, so much at a time
    round(inventory, now_ms, …)  when one is due: who is hot, who should leave, and where to
    changed_rows(), restore()    counters and the history of usage as table rows

In a round the caller is asked about each pod whose turn has come: `protect` says why it may never be evicted,
`remembered` why another try is not worth it, `gate` what stops it now; each answers None, or a text with numbers.
`avoided` names the nodes that are no target for it.
`EndOfNode` and `EndOfRound` from the gate end more than the pod's turn. Nothing is changed but the counters, the
history, and what the caller changes in its gate.

Not guaranteed: that a planned target is where the pod comes to stand; placement decides that when the replacement
asks for a node, by the same view of usage.
"""

from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any

import numpy as np

from schemas.base import Message
from schemas.policy import Policy
from schemas.policy.lownodeload import AnomalyCondition
from schemas.rounds import HotspotCounter, HotspotCounterRow, UsageHistoryRow
from streams.inventory.inventory import Inventory
from streams.rebalance.balance import LoadstreamRounds
from streams.rebalance.columns import Columns
from streams.rebalance.counted import Counted, counted_by, gone_on
from streams.rebalance.counters import Counter, Watch
from streams.rebalance.dynamic_thresholds import note_round, pool_in_force, watched_resources
from streams.rebalance.inputs import RoundInput, measured, selectors_of
from streams.rebalance.koordinator.detectors import Detector
from streams.rebalance.koordinator.pools import FilledPools
from streams.rebalance.koordinator.rules import KoordinatorRounds
from streams.rebalance.looks import Looks
from streams.rebalance.outcome import (
    Avoided,
    Filter,
    Gate,
    Remembered,
    RoundOutcome,
    Thresholds,
    always,
    anyone,
    nothing,
    nowhere,
)
from streams.rebalance.pools import PoolNodes, mean_percentages

#: What a policy's `plugins.balance` must name for rounds to look at nodes.
PLUGIN = "LowNodeLoad"
#: The one key of table `usage_history` in a cluster.
HISTORY_KEY = "means"


class Balancer:
    """Finds hot nodes of one cluster and says which pods should leave them."""

    def __init__(self, cluster: str, policy: Policy) -> None:
        self.cluster = cluster
        self._judged_by: object = None
        self._packed_by: object = None
        """What of the policy the columns depend on."""
        self._counts: dict[Watch, Counted] = {}
        """What rounds count under the policy."""
        self._forgotten: dict[str, None] = {}
        self._unfilled = False
        """Maps that rounds had filled were given up with their policy."""
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Make rounds by another policy; counts begin anew where what is counted has changed."""
        judged_by = (
            policy.compat,
            policy.rebalance.model_dump_json(),
            policy.moving_thresholds.model_dump_json(),
            policy.descheduling.descheduling_interval_ms,
        )
        if judged_by != self._judged_by:
            kept: list[HotspotCounterRow] = []
            counts = counted_by(policy)
            if self._judged_by is not None:
                kept = self._kept(counts)
                # Those dropped since rows were written last are among the changed ones only.
                self._forgotten.update(dict.fromkeys((*self._counted(), *self._changed())))
                filled = self._filled()
                self._unfilled |= filled is not None and filled.row() is not None
            made = KoordinatorRounds if policy.compat == "koordinator" else LoadstreamRounds
            self.rounds: KoordinatorRounds | LoadstreamRounds = made(policy)
            self._counts = counts
            for row in kept:
                self._take(row)
        self._judged_by = judged_by
        self.policy = policy
        packed_by = (
            self.rounds.universe,
            selectors_of(policy),
            policy.descheduling.node_selector,
        )
        if packed_by != self._packed_by:
            columns = Columns(*packed_by)
            if self._packed_by is not None:
                columns.inherit(self.columns)
            self._packed_by = packed_by
            self.columns: Columns = columns

    def refresh(self, inventory: Inventory, most: int | None = None) -> int:
        """Pack nodes that have changed, at most so many; answers how many are left."""
        return self.columns.refresh(inventory, most)

    def round(
        self,
        inventory: Inventory,
        now_ms: int,
        *,
        gate: Gate = always,
        protect: Filter = anyone,
        remembered: Remembered = nothing,
        avoided: Avoided = nowhere,
        leaving: Collection[str] = (),
        paused: bool = False,
    ) -> RoundOutcome:
        """Make a round.

        Args:
            inventory: the cluster.
            now_ms: the log's time.
            gate: asked in order about each pod that would leave.
            protect: the evictor's static protections.
            remembered: pods for which no target was found lately.
            avoided: nodes that a pod's owner must stay away from.
            leaving: uids of pods that are on their way already.
            paused: nodes are only looked at, so that thresholds go on following the recent past.
        """
        self.columns.refresh(inventory)

        def in_force(pool: str, configured: Thresholds) -> Thresholds:
            return pool_in_force(self.policy, inventory.history, pool, configured, now_ms)

        given = RoundInput(
            columns=self.columns,
            now_ms=now_ms,
            filter=protect,
            gate=gate,
            remembered=remembered,
            avoided=avoided,
            in_force=in_force,
            leaving=frozenset(leaving),
            looks=Looks(now_ms),
            reluctant_last=self.policy.evictor.no_eviction_policy == "Preferred",
            paused=paused or self.policy.rebalance.paused,
        )
        if any(plugin.name == PLUGIN for plugin in self.policy.plugins.balance):
            outcome = self.rounds.round(given)
        else:
            outcome = RoundOutcome(now_ms, ended=f"plugins.balance does not enable {PLUGIN}")
        note_round(self.policy, inventory.history, outcome, self._whole(now_ms))
        inventory.move_thresholds()
        return outcome

    def _whole(self, now_ms: int) -> dict[str, float]:
        """Mean usage of all measured nodes in percent, for the filter's thresholds."""
        names = sorted(watched_resources(self.policy))
        fresh = measured(self.columns, self.policy.rebalance, now_ms, names)
        rows = np.flatnonzero(fresh)
        if not names or not rows.size:
            return {}
        nodes = PoolNodes(self.columns, rows, names, self.columns.universe)
        return dict(zip(names, mean_percentages(nodes, nodes.usage), strict=True))

    @property
    def hot_nodes(self) -> int:
        """Nodes whose last word in a round was hot."""
        rounds = self.rounds
        if isinstance(rounds, KoordinatorRounds):
            return len(rounds.detectors.all)
        return sum(
            any(counter.abnormal for counter in of_node.values())
            for of_node in rounds.counters.all.values()
        )

    @property
    def counts_nothing(self) -> bool:
        """No node has a count."""
        return not self._counted()

    # --- rows -------------------------------------------------------------------------------------

    def changed_rows(self, inventory: Inventory) -> Iterator[tuple[str, str, Message | None]]:
        """Table, key within the cluster, and row of what has changed since the last call."""
        changed = self._changed()
        for node in sorted({**self._forgotten, **changed}):
            yield "hotspot_counters", node, self._row(node)
        self._forgotten.clear()
        changed.clear()
        history = inventory.history
        filled = self._filled()
        if history.changed or (filled is not None and filled.changed) or self._unfilled:
            maps = None if filled is None else filled.row()
            row = UsageHistoryRow(cluster=self.cluster, means=history.means, filled=maps)
            yield "usage_history", HISTORY_KEY, row if history.means or maps else None
            history.changed = self._unfilled = False
            if filled is not None:
                filled.changed = False

    def touch(self, inventory: Inventory) -> None:
        """Count everything as changed."""
        self._changed().update(dict.fromkeys(self._counted()))
        inventory.history.changed = True

    def restore(self, read: Callable[[str], Iterator[Any]], inventory: Inventory) -> None:
        """Take over the rows that `read` gives of each table; of a new balancer under its policy only.

        Thresholds that follow the recent past hold again from then on.
        """
        for row in read("hotspot_counters"):
            self._take(row)
        for row in read("usage_history"):
            inventory.history.means = {pool: dict(means) for pool, means in row.means.items()}
            filled = self._filled()
            if filled is not None:
                filled.restore(row.filled)
        inventory.history.changed = self._unfilled = False
        self._forgotten.clear()
        self._changed().clear()
        inventory.move_thresholds()

    def _filled(self) -> FilledPools | None:
        return self.rounds.filled if isinstance(self.rounds, KoordinatorRounds) else None

    def _kept(self, counts: Mapping[Watch, Counted]) -> list[HotspotCounterRow]:
        """Rows of the counters that go on where `counts` is counted from now on."""
        rows = []
        for row in filter(None, map(self._row, self._counted())):
            found = [gone_on(each, self._counts, counts) for each in row.counters]
            counters = tuple(each for each in found if each is not None)
            if counters:
                rows.append(row.model_copy(update={"counters": counters}))
        return rows

    def _counted(self) -> list[str]:
        rounds = self.rounds
        if isinstance(rounds, KoordinatorRounds):
            return list(rounds.detectors.all)
        return list(rounds.counters.all)

    def _changed(self) -> dict[str, None]:
        rounds = self.rounds
        if isinstance(rounds, KoordinatorRounds):
            return rounds.detectors.changed
        return rounds.counters.changed

    def _row(self, node: str) -> HotspotCounterRow | None:
        rounds = self.rounds
        counters: tuple[HotspotCounter, ...]
        if isinstance(rounds, KoordinatorRounds):
            detectors = rounds.detectors.all.get(node, {})
            counters = tuple(
                HotspotCounter(
                    pool=detector.pool,
                    phase=phase,
                    consecutive_abnormal=detector.abnormal,
                    consecutive_normal=detector.normal,
                    abnormal_since_ms=detector.since_ms,
                    counted_at_ms=detector.marked_ms,
                )
                for phase, detector in sorted(detectors.items())
            )
        else:
            counters = tuple(
                HotspotCounter(
                    pool=pool,
                    phase=phase,
                    consecutive_abnormal=counter.abnormal,
                    consecutive_normal=counter.normal,
                    abnormal_since_ms=counter.since_ms,
                    counted_at_ms=counter.counted_ms,
                )
                for (pool, phase), counter in sorted(rounds.counters.all.get(node, {}).items())
            )
        if not counters:
            return None
        return HotspotCounterRow(cluster=self.cluster, node=node, counters=counters)

    def _take(self, row: HotspotCounterRow) -> None:
        rounds = self.rounds
        if isinstance(rounds, KoordinatorRounds):
            conditions = {pool.name: pool.condition for pool in rounds.pools}
            rounds.detectors.all[row.node] = {
                each.phase: Detector(
                    each.pool,
                    conditions.get(each.pool, AnomalyCondition()),
                    each.consecutive_abnormal,
                    each.consecutive_normal,
                    each.abnormal_since_ms,
                    each.counted_at_ms,
                )
                for each in row.counters
            }
        else:
            rounds.counters.all[row.node] = {
                (each.pool, each.phase): Counter(
                    each.consecutive_abnormal,
                    each.consecutive_normal,
                    each.abnormal_since_ms,
                    each.counted_at_ms,
                )
                for each in row.counters
            }
