"""A round as loadstream makes it: judge the pools' nodes, count rounds, plan moves.

A node belongs to the first pool that selects it. Those with a fresh metric are classed by the
thresholds in force; what was over counts a hot round, what was not a calm one (`counters`). Nodes
that have been over for long enough act: their pods are looked at one after the other (`planning`)
until the node is below its thresholds by the plan. Targets are the nodes below all low thresholds
that are not abnormal themselves.

Source: docs/upstream.md B and L, with X10 to X19 and X21; `streams.rebalance.koordinator.rules` is
upstream's way.
"""

from schemas.policy import Policy
from streams.rebalance.candidates import Phase
from streams.rebalance.counters import Counters
from streams.rebalance.dynamic_thresholds import watched_resources
from streams.rebalance.inputs import (
    PodFilter,
    RoundInput,
    measured,
)
from streams.rebalance.node_arrays import Universe
from streams.rebalance.outcome import RoundOutcome
from streams.rebalance.planning import Planning
from streams.rebalance.pool_turn import PoolTurn, Standing
from streams.rebalance.pools import (
    loadstream_pools,
)
from streams.rebalance.risk_nodes import risk_resources


class LoadstreamRounds:
    """Makes rounds, and keeps the counters between them."""

    def __init__(self, cluster: str, policy: Policy) -> None:
        self.args = policy.rebalance
        self.filled = None
        self.pools = loadstream_pools(policy)
        names = {name for pool in self.pools for name in pool.resources}
        names |= {"cpu", "memory", "pods", *watched_resources(policy), *risk_resources(policy)}
        self.universe = Universe(tuple(sorted(names)), "loadstream")
        self.pod_filter = PodFilter(self.args)
        interval_ms = policy.descheduling.descheduling_interval_ms
        self.counters = Counters(cluster, self.args.detector_cache_timeout_ms, interval_ms)
        self._standing = Standing(self.args, self.universe, self.pod_filter, self.counters)
        phases: tuple[Phase, ...] = ("node", "prod")
        self._timeouts_ms = {
            (pool.name, phase): pool.condition.timeout_ms for pool in self.pools for phase in phases
        }

    def round(self, given: RoundInput) -> RoundOutcome:
        """Make one round over all pools."""
        outcome = RoundOutcome(given.now_ms, paused=given.paused)
        if not given.paused:
            self.counters.forget(self._timeouts_ms, given.now_ms)
        columns = given.columns
        left = columns.looked_at.copy()
        for pool in self.pools:
            members = columns.members[pool.index] & left
            left &= ~members
            thresholds = given.in_force(pool.name, pool.thresholds)
            fresh = members & measured(columns, self.args, given.now_ms, pool.resources)
            made = PoolTurn(self._standing, pool, thresholds, given, members, fresh)
            outcome.means[pool.name] = made.outcome.means
            if not given.paused:
                if made.count():
                    _plan(made, outcome)
                outcome.pools.append(made.outcome)
        return outcome

    def node_gone(self, name: str) -> None:
        """Kubernetes has removed a node: a later one of its name is another, whose rounds are its
        own."""
        self.counters.drop(name)


def _plan(made: PoolTurn, outcome: RoundOutcome) -> None:
    """Plan what should leave the nodes that act."""
    planning = Planning(made, made.targets, outcome)
    planning.run("node")
    if made.limits.prod_high is not None:
        planning.run("prod")
