"""Rounds of rebalancing over a cluster's inventory: what the cluster stage calls.

    refresh(most)     at ticks: pack what has changed, a few nodes at a time
    round(now_ms, …)  when one is due: which nodes are hot, which pods should leave, and where to
    tables            counters and the history of usage, which outlive a round

In a round `Rules` are asked about each pod in turn: what protects it, whether another try is worth it,
which nodes are no target for it, and which gate stops it now. A gate's scope says whether it ends more
than the pod's turn. Nothing is changed but the counters, the history, the number of hot nodes,
and what the rules change.

Not guaranteed: that a planned target is where the pod comes to stand; placement decides that when
the replacement asks for a node, by the same view of usage.
"""

from collections.abc import Mapping
from typing import Any, Protocol

import numpy as np

from schemas.policy import LOW_NODE_LOAD, OVERUTILIZATION_RISK, Policy
from schemas.rounds import HotspotCounterRow
from streams.inventory.inventory import Inventory
from streams.rebalance.balance import LoadstreamRounds
from streams.rebalance.candidates import Rules
from streams.rebalance.columns import Columns
from streams.rebalance.counted import Counted, counted_by, gone_on
from streams.rebalance.counters import Counters, Watch
from streams.rebalance.dynamic_thresholds import note_round, pool_in_force, watched_resources
from streams.rebalance.history_table import UsageHistoryTable
from streams.rebalance.inputs import RoundInput, measured, selectors_of
from streams.rebalance.koordinator.detectors import Detectors
from streams.rebalance.koordinator.pools import FilledPools
from streams.rebalance.koordinator.rules import KoordinatorRounds
from streams.rebalance.looks import Looks
from streams.rebalance.node_arrays import Universe
from streams.rebalance.outcome import RoundOutcome, Thresholds
from streams.rebalance.pools import PoolNodes, mean_percentages
from streams.rebalance.risk_moves import RiskMoves
from streams.rebalance.risk_nodes import risk_resources
from streams.stage.tracked_table import TrackedTable


class Rounds(Protocol):
    """One way to make rounds, with what it counts between them."""

    universe: Universe

    @property
    def counters(self) -> Counters | Detectors:
        """What it counts, by node."""
        ...

    @property
    def filled(self) -> FilledPools | None:
        """Maps that rounds fill; none: they fill none."""
        ...

    def round(self, given: RoundInput) -> RoundOutcome:
        """Make one round over all pools."""
        ...

    def node_gone(self, name: str) -> None:
        """Kubernetes has removed a node."""
        ...


class Balancer:
    """Finds hot nodes of one cluster and says which pods should leave them."""

    def __init__(self, cluster: str, policy: Policy, inventory: Inventory) -> None:
        self.cluster = cluster
        self.inventory = inventory
        self.history = UsageHistoryTable(cluster, inventory.history)
        self._judged_by: object = None
        self._packed_by: object = None
        """What of the policy the columns depend on."""
        self.policy: Policy
        self.rounds: Rounds
        self.risk_moves: RiskMoves | None = None
        """None: the policy does not name them."""
        self.hot_nodes = 0
        """Nodes that the last round has found hot or at risk; one that was paused has found none."""
        self._counts: dict[Watch, Counted] = {}
        """What rounds count under the policy."""
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Make rounds by another policy; counts begin anew where what is counted has changed."""
        judged_by = (
            policy.compat,
            policy.rebalance.model_dump_json(),
            policy.moving_thresholds.model_dump_json(),
            policy.descheduling.descheduling_interval_ms,
            policy.descheduling.node_selector,
            policy.plugins.balances(LOW_NODE_LOAD),
            risk_resources(policy),
        )
        if judged_by != self._judged_by:
            counts = counted_by(policy)
            made = KoordinatorRounds if policy.compat == "koordinator" else LoadstreamRounds
            rounds: Rounds = made(self.cluster, policy)
            if self._judged_by is not None:
                before = self.rounds.counters
                for row in self._kept(counts):
                    rounds.counters.take(row)
                # Those dropped since rows were written last are among the changed ones only.
                rounds.counters.changed.update(dict.fromkeys((*before.rows, *before.changed)))
                if policy.plugins.balance != self.policy.plugins.balance:
                    self.hot_nodes = 0  # what was found by another strategy says nothing any more
            self.rounds, self._counts = rounds, counts
            self.history.fill(rounds.filled)
        self._judged_by = judged_by
        self.policy = policy
        by_risk = policy.plugins.balances(OVERUTILIZATION_RISK)
        self.risk_moves = RiskMoves(policy) if by_risk else None
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

    @property
    def tables(self) -> tuple[TrackedTable[str, Any], ...]:
        """What is kept in rows, in the order in which they are written."""
        return (self.rounds.counters, self.history)

    def refresh(self, most: int | None = None) -> int:
        """Pack at most `most` nodes that have changed, none: all; answers how many are left."""
        return self.columns.refresh(self.inventory, most)

    def round(
        self, now_ms: int, rules: Rules | None = None, *, paused: bool = False
    ) -> RoundOutcome:
        """Make a round.

        Args:
            now_ms: the log's time.
            rules: what keeps pods; none: nothing does.
            paused: nodes are only looked at, so that thresholds go on following the recent past.
        """
        inventory = self.inventory
        self.columns.refresh(inventory)

        def in_force(pool: str, configured: Thresholds) -> Thresholds:
            return pool_in_force(self.policy, inventory.history, pool, configured, now_ms)

        given = RoundInput(
            columns=self.columns,
            now_ms=now_ms,
            rules=rules or Rules(),
            in_force=in_force,
            looks=Looks(now_ms),
            reluctant_last=self.policy.evictor.no_eviction_policy == "Preferred",
            paused=paused or self.policy.rebalance.paused,
        )
        if self.policy.plugins.balances(LOW_NODE_LOAD):
            outcome = self.rounds.round(given)
        else:
            why = f"plugins.balance does not enable {LOW_NODE_LOAD}"
            outcome = RoundOutcome(now_ms, given.paused, "" if self.risk_moves else why)
        if self.risk_moves is not None:
            # Last, since it goes by the sum over all nodes: what is planned before changes it.
            self.risk_moves.round(given, outcome)
        self.hot_nodes = len(outcome.hot_names)
        note_round(self.policy, inventory.history, outcome, self._whole(now_ms))
        inventory.move_thresholds()
        return outcome

    def node_gone(self, name: str) -> None:
        """Kubernetes has removed a node."""
        self.rounds.node_gone(name)

    def _whole(self, now_ms: int) -> dict[str, float]:
        """Mean usage of all measured nodes in percent, for the filter's thresholds."""
        names = sorted(watched_resources(self.policy))
        fresh = measured(self.columns, self.policy.rebalance, now_ms, names)
        rows = np.flatnonzero(fresh)
        if not names or not rows.size:
            return {}
        nodes = PoolNodes(self.columns, rows, names, self.columns.universe)
        return dict(zip(names, mean_percentages(nodes, nodes.usage), strict=True))

    def _kept(self, counts: Mapping[Watch, Counted]) -> list[HotspotCounterRow]:
        """Rows of the counters that go on where `counts` is counted from now on."""
        counters = self.rounds.counters
        rows = []
        for row in filter(None, map(counters.row, counters.rows)):
            found = [gone_on(each, self._counts, counts) for each in row.counters]
            kept = tuple(each for each in found if each is not None)
            if kept:
                rows.append(row.model_copy(update={"counters": kept}))
        return rows
