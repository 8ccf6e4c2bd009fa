"""A round as Koordinator makes it (`compat: koordinator`), with all that surprises in it, to the
byte.

What differs from `streams.rebalance.balance`, and where: thresholds that are filled in and written
into maps that pools share (`pools`); pools that overlap (`_members`); detectors that count marks
instead of consecutive rounds (`streams.rebalance.koordinator.detectors`); usage that counts pods
which are gone and leaves out host applications, and a raw allocatable that replaces all of it
(`streams.rebalance.node_arrays`); room as one sum over all targets (`evictions`); nodeFit that is
tested before the order is known and takes room for every pod that fits, evicted or not (`fit`).
Order is that of the golden cases: nodes by name, pods as they came.

Source: docs/upstream.md B; steps are its L1 to L11.
"""

import numpy as np

from schemas.policy import Policy
from streams.inventory.arrays import BoolArray
from streams.rebalance.dynamic_thresholds import watched_resources
from streams.rebalance.inputs import (
    PodFilter,
    RoundInput,
    measured,
)
from streams.rebalance.koordinator.detectors import Detectors
from streams.rebalance.koordinator.pools import FilledPools
from streams.rebalance.koordinator.rounds import PoolTurn
from streams.rebalance.koordinator.standing import Standing
from streams.rebalance.node_arrays import Universe
from streams.rebalance.outcome import HIGH, RoundOutcome
from streams.rebalance.pools import Pool


class KoordinatorRounds:
    """Makes rounds, and keeps the detectors between them."""

    def __init__(self, cluster: str, policy: Policy) -> None:
        self.args = policy.rebalance
        self.filled = FilledPools(policy)
        self.pools = self.filled.pools
        names = {name for pool in self.pools for name in pool.resources}
        names |= {"memory", "pods", *watched_resources(policy)}
        self.universe = Universe(tuple(sorted(names)), "koordinator")
        self.pod_filter = PodFilter(self.args)
        self.counters = Detectors(
            cluster,
            _cache_timeout_ms(policy),
            [(pool.name, pool.condition) for pool in self.pools],
        )
        self._standing = Standing(self.args, self.universe, self.pod_filter, self.counters)
        self._selects_all = [
            each.node_selector is None for each in policy.rebalance.pools("koordinator")
        ]

    def round(self, given: RoundInput) -> RoundOutcome:
        """Make one round over all pools."""
        outcome = RoundOutcome(given.now_ms, paused=given.paused)
        if given.paused:
            return outcome
        self.counters.forget(given.now_ms)
        processed = np.zeros(len(given.columns.nodes), dtype=np.bool_)
        fresh = measured(given.columns, self.args, given.now_ms)
        for pool in self.pools:
            members = self._members(pool, given, processed)
            judged = self.filled.at_its_turn(pool) if members.any() else pool
            made = PoolTurn(self._standing, judged, given, members, members & fresh)
            outcome.pools.append(made.outcome)
            if made.run():
                processed[made.nodes.rows[made.codes == HIGH]] = True
        return outcome

    def node_gone(self, name: str) -> None:
        """Kubernetes has removed a node: upstream's detectors outlive it."""

    def _members(self, pool: Pool, given: RoundInput, processed: BoolArray) -> BoolArray:
        """A pool's nodes.

        Only a selector leaves out nodes that an earlier pool worked on (B2.5, B5.7).
        """
        members: BoolArray = given.columns.members[pool.index] & given.columns.looked_at
        return members if self._selects_all[pool.index] else members & ~processed


def _cache_timeout_ms(policy: Policy) -> int:
    """How long a detector is kept without a mark; 0: for ever.

    Upstream raises a time below the interval between rounds to it as it starts: no count would
    outlast an interval (docs/upstream.md B1.2). A round begins with the first tick after its time,
    which may come late; half an interval more allows for that.
    """
    given_ms = policy.rebalance.detector_cache_timeout_ms
    least_ms = policy.descheduling.descheduling_interval_ms * 3 // 2
    return max(given_ms, least_ms) if given_ms > 0 else 0
