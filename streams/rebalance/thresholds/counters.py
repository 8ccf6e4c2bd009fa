"""For how many rounds a node has been hot, and since when it counts as abnormal.

By our rules a count is of one pool and phase. A node becomes abnormal after
`consecutiveAbnormalities` hot rounds in a row and normal again after `consecutiveNormalities` calm
rounds in a row; one round of the other kind begins the count anew. A round that cannot judge a
node, for want of a fresh metric, neither counts nor breaks a row, but what no round has judged for
a while is forgotten: an abnormal state after the condition's `timeout`, a count after
`detectorCacheTimeout`, neither before two intervals between rounds have gone by.

By Koordinator's rules (docs/reference/upstream.md B3, B5.4, B5.10, X10 to X13) a count is of one phase and
shared by all pools; it keeps the condition of the pool that made it. More hot rounds than
`consecutiveAbnormalities` are needed, not in a row; the abnormal state ends a fixed time after it
began, when the node is calm, or when evictions have brought it below its thresholds. A pool that
needs one round counts nothing.

A new policy keeps the counts of what it counts in the same way (`counted_by`, `carry_over`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from schemas.messages.rounds import HotspotCounter, HotspotCounterRow
from schemas.policy import LOW_NODE_LOAD, Policy
from schemas.policy.sections.rebalance import AnomalyCondition
from streams.rebalance.candidates import Phase
from streams.rebalance.differences import differences_of
from streams.rebalance.thresholds.pools import Pool
from streams.stage.tracked_rows import TrackedRows

#: Pool and phase.
Watch = tuple[str, Phase]


@dataclass(slots=True)
class NodeCounter:
    """Rounds of one node in one phase."""

    pool: str
    pool_index: int | None
    """By Koordinator's rules the place of the pool that made it: several may have one name."""
    condition: AnomalyCondition
    hot: int = 0
    """Hot rounds since the last calm one."""
    calm: int = 0
    """Calm rounds since the last hot one; by Koordinator's rules rounds that acted on the node."""
    since_ms: int | None = None
    """Since when the node counts as abnormal; None: it does not."""
    counted_ms: int = 0
    """The last round that judged it; by Koordinator's rules the last hot one."""

    def begin(self, since_ms: int | None) -> None:
        """The abnormal state begins or ends, by Koordinator's rules."""
        self.since_ms = since_ms
        self.hot = self.calm = 0


class Counters(TrackedRows[str, dict[Watch, NodeCounter]]):
    """Counters of all nodes that are or were hot lately, by node."""

    def __init__(self, cluster: str, policy: Policy, pools: Sequence[Pool]) -> None:
        super().__init__("hotspot_counters", sorted_keys=True)
        self.cluster = cluster
        self._consecutive = differences_of(policy.compat).consecutive_counts
        self._pools = pools
        interval_ms = policy.descheduling.descheduling_interval_ms
        self._least_ms = 2 * interval_ms
        self._cache_ms = cache_ms = policy.rebalance.detector_cache_timeout_ms
        if not self._consecutive and cache_ms > 0:
            # Upstream raises a time below the interval between rounds to it as it starts: no count
            # would outlast an interval (docs/reference/upstream.md B1.2). A round may come late; half an
            # interval more allows for that.
            self._cache_ms = max(cache_ms, interval_ms * 3 // 2)

    # --- rounds -----------------------------------------------------------------------------------

    def count_hot(self, node: str, pool: Pool, phase: Phase, now_ms: int) -> tuple[bool, int]:
        """Count a hot round; return whether the node acts, and its number of hot rounds."""
        condition = pool.condition
        counter = self._find(node, self._watch(pool, phase), now_ms)
        if not self._consecutive and condition.consecutive_abnormalities == 1:
            return True, 1 if counter is None else counter.hot + 1
        if counter is None:
            index = None if self._consecutive else pool.index
            counter = NodeCounter(pool.name, index, condition)
            self.rows.setdefault(node, {})[self._watch(pool, phase)] = counter
        self.changed[node] = None
        counter.counted_ms = now_ms
        self._expire(counter, now_ms)
        counter.hot, counter.calm = counter.hot + 1, 0
        hot, needed = counter.hot, counter.condition.consecutive_abnormalities
        if counter.since_ms is None:
            if self._consecutive and hot >= needed:
                counter.since_ms = now_ms
            elif not self._consecutive and hot > needed:
                counter.begin(now_ms)
        return counter.since_ms is not None, hot

    def count_calm(self, nodes: Sequence[str], pool: Pool, phase: Phase, now_ms: int) -> None:
        """Count a calm round of nodes that are watched, by our rules."""
        watch = self._watch(pool, phase)
        for node in nodes:
            counter = self._find(node, watch, now_ms)
            if counter is None:
                continue
            counter.calm, counter.hot = counter.calm + 1, 0
            counter.counted_ms = now_ms
            if counter.since_ms is None or counter.calm >= pool.condition.consecutive_normalities:
                self._drop(node, watch)
            self.changed[node] = None

    def count_acted(self, nodes: Sequence[str], pool: Pool, phase: Phase, now_ms: int) -> None:
        """Note that a round has acted on nodes: by Koordinator's rules a normal mark (B3.4)."""
        for node in () if self._consecutive else nodes:
            counter = self._find(node, self._watch(pool, phase), now_ms)
            if counter is None:
                continue
            self.changed[node] = None
            self._expire(counter, now_ms)
            counter.calm, counter.hot = counter.calm + 1, 0
            normalities = counter.condition.consecutive_normalities
            if counter.since_ms is not None and counter.calm > normalities:
                counter.begin(None)

    def reset(self, node: str, pool: Pool, phase: Phase, now_ms: int) -> None:
        """End the abnormal state of a node that is not over, by Koordinator's rules."""
        if self._consecutive:
            return
        counter = self._find(node, self._watch(pool, phase), now_ms)
        if counter is not None and counter.since_ms is not None:
            counter.begin(None)
            self.changed[node] = None

    def watched(self, pool: Pool, phase: Phase) -> list[str]:
        """Nodes that have a count in a pool and phase, by our rules."""
        if not self._consecutive:
            return []
        watch = self._watch(pool, phase)
        return [node for node, of_node in self.rows.items() if watch in of_node]

    def abnormal(self, pool: Pool) -> list[str]:
        """Nodes that count as abnormal in a pool even if they are calm now, by our rules."""
        if not self._consecutive:
            return []
        return [
            node
            for node, of_node in self.rows.items()
            if any(
                name == pool.name and counter.since_ms is not None
                for (name, _), counter in of_node.items()
            )
        ]

    def forget(self, now_ms: int) -> None:
        """Drop what no round has counted for too long."""
        for node, of_node in list(self.rows.items()):
            for watch in list(of_node):
                self._find(node, watch, now_ms)

    def remove_node(self, node: str) -> None:
        """Forget a node that Kubernetes has removed: a later one of its name is another.

        Koordinator's counts outlive it.
        """
        if self._consecutive:
            self.drop(node)

    def describe_wait(self, rounds: int, pool: Pool) -> str:
        """Why a node that is over does not act yet."""
        needed = pool.condition.consecutive_abnormalities
        if self._consecutive:
            return f"over for {rounds} of {needed} rounds in a row"
        return f"over in {rounds} rounds, more than {needed} are needed"

    def _watch(self, pool: Pool, phase: Phase) -> Watch:
        return (pool.name if self._consecutive else "", phase)

    def _expire(self, counter: NodeCounter, now_ms: int) -> None:
        """The abnormal state ends a fixed time after it began, by Koordinator's rules (B3.3)."""
        since_ms = counter.since_ms
        if self._consecutive or since_ms is None:
            return
        if since_ms + counter.condition.timeout_ms < now_ms:
            counter.begin(None)

    def _find(self, node: str, watch: Watch, now_ms: int) -> NodeCounter | None:
        """The counter of a node, unless it is too old; then it is dropped."""
        counter = self.rows.get(node, {}).get(watch)
        if counter is None:
            return None
        limit_ms = self._cache_ms
        if self._consecutive:
            if counter.since_ms is not None:
                limit_ms = counter.condition.timeout_ms
            limit_ms = max(limit_ms, self._least_ms)
        if limit_ms <= 0 or now_ms - counter.counted_ms <= limit_ms:
            return counter
        self._drop(node, watch)
        return None

    def _drop(self, node: str, watch: Watch) -> None:
        of_node = self.rows[node]
        del of_node[watch]
        if not of_node:
            del self.rows[node]
        self.changed[node] = None

    # --- rows -------------------------------------------------------------------------------------

    def row(self, key: str) -> HotspotCounterRow | None:
        """The row of a node."""
        counters = tuple(
            HotspotCounter(
                pool=counter.pool,
                pool_index=counter.pool_index,
                phase=phase,
                consecutive_abnormal=counter.hot,
                consecutive_normal=counter.calm,
                abnormal_since_ms=counter.since_ms,
                counted_at_ms=counter.counted_ms,
            )
            for (_, phase), counter in sorted(self.rows.get(key, {}).items())
        )
        if not counters:
            return None
        return HotspotCounterRow(cluster=self.cluster, node=key, counters=counters)

    def take(self, row: HotspotCounterRow) -> None:
        """Take over a row as it was written."""
        self.rows[row.node] = {
            (each.pool if self._consecutive else "", each.phase): NodeCounter(
                each.pool,
                each.pool_index,
                self._condition(each),
                each.consecutive_abnormal,
                each.consecutive_normal,
                each.abnormal_since_ms,
                each.counted_at_ms,
            )
            for each in row.counters
        }

    def _condition(self, counter: HotspotCounter) -> AnomalyCondition:
        """That of the pool that made a counter."""
        index, pools = counter.pool_index, self._pools
        if index is not None and index < len(pools) and pools[index].name == counter.pool:
            return pools[index].condition
        conditions = {pool.name: pool.condition for pool in pools}
        return conditions.get(counter.pool, AnomalyCondition())


# --- another policy -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Counted:
    """What one pool counts in one phase."""

    what: Any
    """Two that are equal count the same."""
    needed: int
    """Rounds that make a node abnormal."""
    by_pool: tuple[int, ...] = ()
    """The same of each pool in its place, by Koordinator's rules, where several may have one name."""

    def needed_for(self, counter: HotspotCounter) -> int:
        """Rounds that make a node abnormal by the pool that a counter is of."""
        index = counter.pool_index
        return self.needed if index is None or not self.by_pool else self.by_pool[index]


def counted_by(policy: Policy) -> dict[Watch, Counted]:
    """What rounds count under a policy, by pool and phase; nothing where none goes by thresholds.

    A count goes on as long as the same nodes belong to the pool, the same thresholds make them hot,
    and rounds are as far apart. How long a count is remembered, targets, weights, pods and limits
    are no part of it.
    """
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
    if not differences_of(policy.compat).consecutive_counts:
        # A node has one count for all pools, and a low threshold that is missing changes the high
        # one.
        lows = [(each.low_thresholds, each.prod_low_thresholds) for each in pools]
        whole = ([what for _, what, _ in found], lows)
        by_pool = tuple(needed for (_, phase), _, needed in found if phase == "node")
        return {watch: Counted(whole, needed, by_pool) for watch, _, needed in found}
    return {watch: Counted(what, needed) for watch, what, needed in found}


def carry_over(
    counters: Counters, before: Mapping[Watch, Counted], after: Mapping[Watch, Counted]
) -> list[HotspotCounterRow]:
    """Rows of the counters that go on under another policy."""
    rows = []
    for row in filter(None, map(counters.row, counters.rows)):
        carried = [_carry(each, before, after) for each in row.counters]
        kept = tuple(each for each in carried if each is not None)
        if kept:
            rows.append(row.model_copy(update={"counters": kept}))
    return rows


def _carry(
    counter: HotspotCounter, before: Mapping[Watch, Counted], after: Mapping[Watch, Counted]
) -> HotspotCounter | None:
    """A counter under another policy; None: something else is counted, or it says nothing any more.

    Where more rounds are needed than before, a node that counted as abnormal has to reach them.
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
