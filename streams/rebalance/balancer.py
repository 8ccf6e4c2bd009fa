"""Makes rebalance rounds over a cluster's inventory.

    refresh       before a round: update the columns of changed nodes, a few at a time
    make_round    when a round is due: find hot nodes, and the pods that should leave them
    tracked_rows  counters of hot rounds, and threshold maps filled in by Koordinator's rules

`RoundRules` decide which pods may leave, and which gate stops them. A gate may stop one pod, all pods of a
node, or the round. A round changes counters, threshold maps and `hot_nodes`; `RoundRules.propose` creates
migrations.

A planned target is not binding: placement chooses the node when the replacement requests one.
"""

from typing import Any

from schemas.policy import LOW_NODE_LOAD, OVERUTILIZATION_RISK, Policy
from streams.inventory.inventory import Inventory
from streams.placement.placer import Exclusions
from streams.rebalance.candidates import RoundRules
from streams.rebalance.columns import Columns
from streams.rebalance.inputs import RoundInput
from streams.rebalance.outcome import RoundOutcome
from streams.rebalance.risk.moves import plan_risk_moves
from streams.rebalance.risk.nodes import list_risk_resources
from streams.rebalance.thresholds.pools import ThresholdMapsTable
from streams.rebalance.thresholds.rounds import ThresholdRounds
from streams.stage.budget import Budget
from streams.stage.tracked_rows import TrackedRows

#: Most pods that one round checks, which takes some 80 ms.
CHECKED_PODS_MAX = 1_500
#: Most hot nodes of a pool that report their usage as a metric: each is a row of the dashboard.
HOT_NODES_SHOWN_MAX = 20


class Balancer:
    def __init__(self, cluster: str, inventory: Inventory, exclusions: Exclusions) -> None:
        self.cluster = cluster
        self.inventory, self._exclusions = inventory, exclusions
        self._rounds_key: object = None
        """Parts of the policy that rounds depend on."""
        self._columns_key: object = None
        """Parts of the policy that columns depend on."""
        self.policy: Policy
        self.rounds: ThresholdRounds
        self.threshold_maps: ThresholdMapsTable
        self.hot_nodes = 0
        """Number of nodes that are hot or at risk in the last round; 0 if rebalancing was paused."""
        self.hot_usage: dict[tuple[str, str], float] = {}
        """Shares of capacity that the hottest nodes use, by node and resource; empty after a restart."""
        self.set_policy(inventory.policy)

    def set_policy(self, policy: Policy) -> None:
        """Apply a policy; if rounds depend on the change, the counters of hot rounds are reset."""
        rounds_key = (
            policy.compat,
            policy.rebalance.model_dump_json(),
            policy.moving_thresholds.model_dump_json(),
            policy.descheduling.descheduling_interval_ms,
            policy.descheduling.node_selector,
            policy.plugins.balances(LOW_NODE_LOAD),
            list_risk_resources(policy),
        )
        if rounds_key != self._rounds_key:
            rounds = ThresholdRounds(self.cluster, policy)
            if self._rounds_key is None:
                self.threshold_maps = ThresholdMapsTable(self.cluster, rounds.pools)
            else:
                before = self.rounds.counters
                # Counters that were dropped since the last write are only in `changed`.
                rounds.counters.changed.update(dict.fromkeys((*before.rows, *before.changed)))
                if policy.plugins.balance != self.policy.plugins.balance:
                    self.forget_hot_nodes()  # the last round used another strategy
                self.threshold_maps.change_pools(rounds.pools)
            self.rounds = rounds
        self._rounds_key = rounds_key
        self.policy = policy
        columns_key = (
            self.rounds.reading_rules,
            [pool.node_selector for pool in policy.rebalance.pools(policy.compat)],
            policy.descheduling.node_selector,
        )
        if columns_key != self._columns_key:
            self._columns_key = columns_key
            self.columns = Columns(*columns_key)

    @property
    def tracked_rows(self) -> tuple[TrackedRows[str, Any], ...]:
        return (self.rounds.counters, self.threshold_maps)

    def refresh(self, most: int | None = None) -> int:
        """Refresh at most `most` changed nodes, or all; return the number of nodes left."""
        return self.columns.refresh(self.inventory, most)

    def make_round(self, now_ms: int, rules: RoundRules) -> RoundOutcome:
        if self.policy.rebalance.paused:
            self.forget_hot_nodes()
            return RoundOutcome(now_ms, "rebalancing is paused")
        self.columns.refresh(self.inventory)
        inputs = RoundInput(
            columns=self.columns,
            now_ms=now_ms,
            rules=rules,
            exclusions=self._exclusions,
            budget=Budget(CHECKED_PODS_MAX, now_ms),
            no_eviction_last=self.policy.evictor.no_eviction_policy == "Preferred",
        )
        moves_by_risk = self.policy.plugins.balances(OVERUTILIZATION_RISK)
        if self.policy.plugins.balances(LOW_NODE_LOAD):
            outcome = self.rounds.make_round(inputs)
        else:
            text = f"plugins.balance does not enable {LOW_NODE_LOAD}"
            outcome = RoundOutcome(now_ms, "" if moves_by_risk else text)
        if moves_by_risk:
            # Last, because the costs of nodes include the moves by thresholds.
            plan_risk_moves(self.policy, inputs, outcome)
        self.hot_nodes = len(outcome.hot_names)
        self.hot_usage = {
            (node.name, resource): used / node.capacity[resource]
            for pool in outcome.pools
            for node in pool.hot[:HOT_NODES_SHOWN_MAX]
            for resource, used in node.usage.items()
            if node.capacity.get(resource)
        }
        return outcome

    def forget_hot_nodes(self) -> None:
        self.hot_nodes, self.hot_usage = 0, {}

    def remove_node(self, name: str) -> None:
        self.rounds.counters.remove_node(name)
