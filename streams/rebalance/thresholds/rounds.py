"""A round by thresholds: judge the pools' nodes, count rounds, plan moves.

Each pool has its part of a round: nodes with a fresh metric are classed by the thresholds in force
and hot rounds are counted (`pool_round`); pods leave nodes that have been hot for long enough until
these are below their thresholds by the plan (`evictions`).
"""

import numpy as np

from schemas.policy import Policy
from streams.rebalance.differences import differences_of
from streams.rebalance.inputs import PodFilter, RoundInput, find_judgeable, measured
from streams.rebalance.node_arrays import Universe
from streams.rebalance.outcome import HIGH, RoundOutcome
from streams.rebalance.risk.nodes import risk_resources
from streams.rebalance.thresholds.counters import Counters
from streams.rebalance.thresholds.evictions import Evictions
from streams.rebalance.thresholds.limits import PoolNodes, mean_percentages
from streams.rebalance.thresholds.moving import pool_in_force, watched_resources
from streams.rebalance.thresholds.pool_round import PoolTurn, Shared
from streams.rebalance.thresholds.pools import Pool, Pools, resources_of
from streams.stage.arrays import BoolArray
from streams.usage.moving_thresholds import UsageHistory


class ThresholdRounds:
    """Makes rounds under one policy, and keeps the counters between them."""

    def __init__(self, cluster: str, policy: Policy, history: UsageHistory) -> None:
        self._policy, self._history = policy, history
        self.differences = differences = differences_of(policy.compat)
        self.pools = Pools(policy, differences)
        pools = self.pools.pools
        names = {name for pool in pools for name in resources_of(pool.thresholds)}
        names |= {"memory", "pods", *watched_resources(policy), *risk_resources(policy)}
        self.universe = Universe(
            tuple(sorted(names)), differences, policy.rebalance.min_samples or 0
        )
        self.counters = Counters(cluster, policy, pools)
        self._shared = Shared(
            policy.rebalance, differences, PodFilter(policy.rebalance), self.counters
        )

    def round(self, given: RoundInput) -> RoundOutcome:
        """Make one round over all pools."""
        outcome = RoundOutcome(given.now_ms, paused=given.paused)
        if not given.paused:
            self.counters.forget(given.now_ms)
        columns, args = given.columns, self._policy.rebalance
        done = np.zeros(len(columns.nodes), dtype=np.bool_)
        for pool in self.pools.pools:
            members = self._members(pool, given, done)
            configured = pool.thresholds
            if members.any() and not given.paused:
                configured = self.pools.fill_in(pool)
            thresholds = pool_in_force(
                self._policy, self._history, pool.name, configured, given.now_ms
            )
            resources = resources_of(configured)
            fresh = (
                members & measured(columns, args, given.now_ms) & find_judgeable(columns, resources)
            )
            nodes = PoolNodes(columns, np.flatnonzero(fresh), resources)
            outcome.means[pool.name] = self._means(nodes)
            if self.differences.first_match_pools:
                done |= members
            if given.paused:
                continue
            pool_round = PoolTurn(self._shared, pool, thresholds, given, members, nodes)
            outcome.pools.append(pool_round.outcome)
            if not pool_round.count():
                continue
            Evictions(pool_round, outcome).run()
            pool_round.note_acted()
            done[nodes.rows[pool_round.codes == HIGH]] = True
        return outcome

    def _means(self, nodes: PoolNodes) -> dict[str, float]:
        """Mean usage in percent; of nothing measured there is none."""
        if not nodes.rows.size:
            return {}
        means = mean_percentages(nodes, nodes.usage, self.differences)
        return dict(zip(nodes.resources, means, strict=True))

    def _members(self, pool: Pool, given: RoundInput, done: BoolArray) -> BoolArray:
        """A pool's nodes.

        By Koordinator's rules only a selector leaves out nodes that an earlier pool worked on
        (docs/reference/upstream.md B2.5, B5.7).
        """
        columns = given.columns
        members: BoolArray = columns.members[pool.index] & columns.looked_at
        if pool.selector is None and not self.differences.first_match_pools:
            return members
        return members & ~done
