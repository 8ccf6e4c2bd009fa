"""A round by thresholds over all pools.

For each pool, `pool_round` classifies the nodes with a fresh metric by the current thresholds, and counts
their hot and calm rounds. `evictions` then plans moves from abnormal nodes.
"""

import numpy as np

from schemas.policy import Policy
from streams.rebalance.differences import get_differences
from streams.rebalance.inputs import PodFilter, RoundInput, find_classifiable, find_measured
from streams.rebalance.node_figures import ReadingRules
from streams.rebalance.outcome import HIGH, RoundOutcome
from streams.rebalance.risk.nodes import list_risk_resources
from streams.rebalance.thresholds.counters import Counters
from streams.rebalance.thresholds.evictions import Evictions
from streams.rebalance.thresholds.limits import PoolNodes
from streams.rebalance.thresholds.pool_round import PoolRound, PoolsContext
from streams.rebalance.thresholds.pools import Pool, Pools, list_resources, resolve_thresholds
from streams.stage.arrays import BoolArray


class ThresholdRounds:
    """Makes rounds under one policy, and keeps counters between rounds."""

    def __init__(self, cluster: str, policy: Policy) -> None:
        self._policy = policy
        self.differences = differences = get_differences(policy.compat)
        self.pools = Pools(policy, differences)
        pools = self.pools.pools
        names = {name for pool in pools for name in list_resources(pool.thresholds)}
        names |= {"memory", "pods", *list_risk_resources(policy)}
        self.reading_rules = ReadingRules(
            tuple(sorted(names)), differences, policy.rebalance.min_samples or 0
        )
        self.counters = Counters(cluster, policy, pools)
        self._shared = PoolsContext(
            policy.rebalance, differences, PodFilter(policy.rebalance), self.counters
        )

    def make_round(self, inputs: RoundInput) -> RoundOutcome:
        outcome = RoundOutcome(inputs.now_ms)
        self.counters.drop_old(inputs.now_ms)
        columns, args = inputs.columns, self._policy.rebalance
        handled = np.zeros(len(columns.nodes), dtype=np.bool_)
        for pool in self.pools.pools:
            members = self._find_members(pool, inputs, handled)
            configured = self.pools.fill_in(pool) if members.any() else pool.thresholds
            thresholds = resolve_thresholds(self._policy, pool.name, configured, inputs.now_ms)
            resources = list_resources(configured)
            fresh = (
                members
                & find_measured(columns, args, inputs.now_ms)
                & find_classifiable(columns, resources)
            )
            nodes = PoolNodes(columns, np.flatnonzero(fresh), resources)
            if self.differences.first_match_pools:
                handled |= members
            pool_round = PoolRound(self._shared, pool, thresholds, inputs, members, nodes)
            outcome.pools.append(pool_round.outcome)
            if not pool_round.count_round():
                continue
            Evictions(pool_round, outcome).run()
            pool_round.count_evictions()
            handled[nodes.rows[pool_round.codes == HIGH]] = True
        return outcome

    def _find_members(self, pool: Pool, inputs: RoundInput, handled: BoolArray) -> BoolArray:
        """Return a mask of the pool's nodes.

        By Koordinator's rules, a pool without a selector includes nodes that an earlier pool has handled
        (docs/reference/upstream.md B2, B5).
        """
        columns = inputs.columns
        members: BoolArray = columns.members[pool.index] & columns.included
        if pool.selector is None and not self.differences.first_match_pools:
            return members
        return members & ~handled
