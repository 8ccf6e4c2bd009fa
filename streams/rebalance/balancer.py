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

from typing import Any

import numpy as np

from schemas.policy import LOW_NODE_LOAD, OVERUTILIZATION_RISK, Policy
from streams.inventory.inventory import Inventory
from streams.rebalance.candidates import Rules
from streams.rebalance.columns import Columns
from streams.rebalance.inputs import RoundInput, measured, selectors_of
from streams.rebalance.outcome import RoundOutcome
from streams.rebalance.risk.moves import RiskMoves
from streams.rebalance.risk.nodes import risk_resources
from streams.rebalance.thresholds.counters import Counted, Watch, carry_over, counted_by
from streams.rebalance.thresholds.history_table import UsageHistoryTable
from streams.rebalance.thresholds.limits import PoolNodes, mean_percentages
from streams.rebalance.thresholds.moving import note_round, watched_resources
from streams.rebalance.thresholds.rounds import ThresholdRounds
from streams.stage.budget import Budget
from streams.stage.tracked_rows import TrackedRows

#: Most pods that one round checks, each by all gates that may keep it: some 80 ms.
PODS_PER_ROUND_MAX = 1_500


class Balancer:
    """Finds hot nodes of one cluster and says which pods should leave them."""

    def __init__(self, cluster: str, policy: Policy, inventory: Inventory) -> None:
        self.cluster = cluster
        self.inventory = inventory
        self._judged_by: object = None
        self._packed_by: object = None
        """What of the policy the columns depend on."""
        self.policy: Policy
        self.rounds: ThresholdRounds
        self.history: UsageHistoryTable
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
            history = self.inventory.history
            rounds = ThresholdRounds(self.cluster, policy, history)
            if self._judged_by is None:
                self.history = UsageHistoryTable(self.cluster, history, rounds.pools)
            else:
                before = self.rounds.counters
                for row in carry_over(before, self._counts, counts):
                    rounds.counters.take(row)
                # Those dropped since rows were written last are among the changed ones only.
                rounds.counters.changed.update(dict.fromkeys((*before.rows, *before.changed)))
                if policy.plugins.balance != self.policy.plugins.balance:
                    self.hot_nodes = 0  # what was found by another strategy says nothing any more
                self.history.change_pools(rounds.pools)
            self.rounds, self._counts = rounds, counts
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
    def tracked_rows(self) -> tuple[TrackedRows[str, Any], ...]:
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

        given = RoundInput(
            columns=self.columns,
            now_ms=now_ms,
            rules=rules or Rules(),
            budget=Budget(PODS_PER_ROUND_MAX, now_ms),
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
        self.rounds.counters.remove_node(name)

    def _whole(self, now_ms: int) -> dict[str, float]:
        """Mean usage of all measured nodes in percent, for the filter's thresholds."""
        names = sorted(watched_resources(self.policy))
        fresh = measured(self.columns, self.policy.rebalance, now_ms, names)
        rows = np.flatnonzero(fresh)
        if not names or not rows.size:
            return {}
        nodes = PoolNodes(self.columns, rows, names)
        means = mean_percentages(nodes, nodes.usage, self.rounds.differences)
        return dict(zip(names, means, strict=True))
