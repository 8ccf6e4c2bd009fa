"""What the rounds count in each pool, so that counts outlive a policy that changes something else.

A count is of rounds in which a node of a pool was above its high thresholds. It goes on as long as
the same nodes belong to the pool, the same thresholds make them hot, and rounds are as far apart.
How long a count is remembered, targets, weights, pods and limits are no part of it. Where more
rounds are needed than before, a node that counted as abnormal has to reach them.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from schemas.policy import LOW_NODE_LOAD, Policy
from schemas.rounds import HotspotCounter
from streams.rebalance.counters import Watch


@dataclass(frozen=True, slots=True)
class Counted:
    """What one pool counts in one phase."""

    what: Any
    """Two that are equal count the same."""
    needed: int
    """Rounds that make a node abnormal."""
    by_pool: tuple[int, ...] = ()
    """The same of each pool in its place; Koordinator's way, where several may have one name."""

    def needed_for(self, counter: HotspotCounter) -> int:
        """Rounds that make a node abnormal by the pool that a counter is of."""
        index = counter.pool_index
        return self.needed if index is None or not self.by_pool else self.by_pool[index]


def counted_by(policy: Policy) -> dict[Watch, Counted]:
    """What rounds count under a policy, by pool and phase; nothing where none goes by thresholds."""
    if not policy.plugins.balances(LOW_NODE_LOAD):
        return {}
    descheduling = policy.descheduling
    pools = policy.rebalance.pools(policy.compat)
    found: list[tuple[Watch, Any, int]] = []
    for index, pool in enumerate(pools):
        resources = {
            *(pool.high_thresholds or {}), *(pool.low_thresholds or {}),
            *(pool.prod_high_thresholds or {}), *(pool.prod_low_thresholds or {}),
        }  # fmt: skip
        node = (
            policy.compat,
            descheduling.descheduling_interval_ms,
            descheduling.node_selector,
            # A node belongs to the first pool that selects it.
            tuple(each.node_selector for each in pools[: index + 1]),
            pool.use_deviation_thresholds,
            policy.moving_thresholds.of_pool(pool.name),
            # A node is judged where all of them are measured.
            resources,
            pool.high_thresholds or {},
        )
        prod = (*node, pool.prod_high_thresholds or {})
        condition = pool.anomaly_condition
        needed = 0 if condition is None else condition.consecutive_abnormalities
        found += [((pool.name, "node"), node, needed), ((pool.name, "prod"), prod, needed)]
    if policy.compat == "koordinator":
        # A node has one detector for all pools, and a low threshold that is missing changes the
        # high one.
        lows = [(each.low_thresholds, each.prod_low_thresholds) for each in pools]
        whole = ([what for _, what, _ in found], lows)
        by_pool = tuple(needed for (_, phase), _, needed in found if phase == "node")
        return {watch: Counted(whole, needed, by_pool) for watch, _, needed in found}
    return {watch: Counted(what, needed) for watch, what, needed in found}


def gone_on(
    counter: HotspotCounter, before: Mapping[Watch, Counted], after: Mapping[Watch, Counted]
) -> HotspotCounter | None:
    """A counter under another policy.

    None: something else is counted, or it says nothing any more.
    """
    watch = (counter.pool, counter.phase)
    was, is_now = before.get(watch), after.get(watch)
    if was is None or is_now is None or was.what != is_now.what:
        return None
    goes_on = is_now.needed_for(counter) <= was.needed_for(counter)
    if goes_on or counter.abnormal_since_ms is None:
        return counter
    if not counter.consecutive_abnormal:
        return None
    return counter.model_copy(update={"abnormal_since_ms": None})
