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
        self.policy = inventory.policy
        self.rounds, self.columns = self._create_rounds()
        self.threshold_maps = ThresholdMapsTable(cluster, self.rounds.pools)
        self.hot_nodes = 0
        """Number of nodes that are hot or at risk in the last round; 0 if rebalancing was paused."""
        self.hot_usage: dict[tuple[str, str], float] = {}
        """Shares of capacity that the hottest nodes use, by node and resource; empty after a restart."""

    def set_policy(self, policy: Policy) -> None:
        """Apply a policy; if rounds depend on the change, the counters of hot rounds are reset."""
        before, self.policy = self.policy, policy
        if _list_round_parts(policy) == _list_round_parts(before):
            return
        counters = self.rounds.counters
        self.rounds, columns = self._create_rounds()
        if columns.rules != self.columns.rules:
            self.columns = columns  # packing all nodes again takes half a second
        # Counters that were dropped since the last write are only in `changed`.
        self.rounds.counters.changed.update(dict.fromkeys((*counters.rows, *counters.changed)))
        self.threshold_maps.pools = self.rounds.pools
        if policy.plugins.balance != before.plugins.balance:
            self.forget_hot_nodes()  # the last round used another strategy

    def _create_rounds(self) -> tuple[ThresholdRounds, Columns]:
        rounds, policy = ThresholdRounds(self.cluster, self.policy), self.policy
        selectors = [pool.node_selector for pool in policy.rebalance.pools(policy.compat)]
        columns = Columns(rounds.reading_rules, selectors, policy.descheduling.node_selector)
        return rounds, columns

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
            (node.name, resource): used / node.readings.capacity[resource]
            for pool in outcome.pools
            for node in pool.hot[:HOT_NODES_SHOWN_MAX]
            for resource, used in node.readings.used.items()
            if node.readings.capacity[resource]
        }
        return outcome

    def forget_hot_nodes(self) -> None:
        self.hot_nodes, self.hot_usage = 0, {}

    def remove_node(self, name: str) -> None:
        self.rounds.counters.remove_node(name)


def _list_round_parts(policy: Policy) -> list[object]:
    """Return the parts of a policy that rounds depend on."""
    return [
        policy.compat,
        policy.rebalance.model_dump_json(),
        policy.moving_thresholds.model_dump_json(),
        policy.descheduling.descheduling_interval_ms,
        policy.descheduling.node_selector,
        policy.plugins.balances(LOW_NODE_LOAD),
        list_risk_resources(policy),
    ]
