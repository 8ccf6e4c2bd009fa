"""Counts hot and calm rounds of nodes. Pods leave nodes that are abnormal: hot in enough rounds.

By loadstream's rules, counters are kept per pool and phase:

- A node becomes abnormal after `consecutiveAbnormalities` hot rounds in a row, and normal after
  `consecutiveNormalities` calm rounds in a row.
- A round without a fresh metric of the node does not count.
- The counter of a node that no round classifies is dropped after the `timeout` of the condition if the
  node is abnormal, else after `detectorCacheTimeout`. It stays for at least two intervals between rounds.

By Koordinator's rules (docs/reference/upstream.md B3, B5; compat.md X10 to X13), counters are kept per
phase and shared by all pools:

- A node becomes abnormal after more than `consecutiveAbnormalities` hot rounds, not in a row. The
  counter has the condition of the pool that created it.
- The abnormal state ends after a fixed time, when the node is calm, or when evictions have brought the
  node below its thresholds.
- A pool with `consecutiveAbnormalities: 1` creates no counters.

All counters are reset when a policy changes rebalancing.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from schemas.messages.rounds import HotspotCounter, HotspotCounterRow
from schemas.policy import Policy
from schemas.policy.sections.rebalance import AnomalyCondition
from streams.rebalance.candidates import Phase
from streams.rebalance.differences import get_differences
from streams.rebalance.thresholds.pools import Pool
from streams.stage.tracked_rows import TrackedRows

#: Pool and phase.
CounterKey = tuple[str, Phase]


@dataclass(slots=True)
class NodeCounter:
    """Rounds of one node in one phase, with the fields of `HotspotCounter`."""

    pool: str
    pool_index: int | None
    phase: Phase
    consecutive_abnormal: int = 0
    """Hot rounds since the last calm round."""
    consecutive_normal: int = 0
    """Calm rounds since the last hot round; by Koordinator's rules, rounds that evicted pods."""
    abnormal_since_ms: int | None = None
    counted_at_ms: int = 0
    """Time of the last round that classified the node; by Koordinator's rules, of the last hot round."""

    def count_hot(self) -> None:
        self.consecutive_abnormal, self.consecutive_normal = self.consecutive_abnormal + 1, 0

    def count_calm(self) -> None:
        self.consecutive_abnormal, self.consecutive_normal = 0, self.consecutive_normal + 1

    def set_abnormal(self, since_ms: int | None) -> None:
        """Begin the abnormal state, or end it with None, by Koordinator's rules."""
        self.abnormal_since_ms = since_ms
        self.consecutive_abnormal = self.consecutive_normal = 0


class Counters(TrackedRows[str, dict[CounterKey, NodeCounter]]):
    """Counters of nodes that are hot or were hot lately, by node."""

    def __init__(self, cluster: str, policy: Policy, pools: Sequence[Pool]) -> None:
        super().__init__("hotspot_counters", sorted_keys=True)
        self.cluster = cluster
        self._consecutive = get_differences(policy.compat).consecutive_counts
        self._pools = pools
        self._conditions = {pool.name: pool.condition for pool in pools}
        interval_ms = policy.descheduling.descheduling_interval_ms
        self._min_limit_ms = 2 * interval_ms
        self._cache_ms = cache_ms = policy.rebalance.detector_cache_timeout_ms
        if not self._consecutive and cache_ms > 0:
            # Upstream raises the timeout to at least the interval between rounds (docs/reference/upstream.md
            # B1). Otherwise counters would not last until the next round. Rounds may be late, so half an
            # interval is added.
            self._cache_ms = max(cache_ms, interval_ms * 3 // 2)

    # --- rounds -----------------------------------------------------------------------------------

    def count_hot(self, node: str, pool: Pool, phase: Phase, now_ms: int) -> tuple[bool, int]:
        """Count a hot round; return whether the node is abnormal, and its number of hot rounds."""
        condition = pool.condition
        counter = self._get_fresh(node, self._build_key(pool, phase), now_ms)
        if not self._consecutive and condition.consecutive_abnormalities == 1:
            return True, 1 if counter is None else counter.consecutive_abnormal + 1
        if counter is None:
            # By Koordinator's rules, pools may have equal names.
            index = None if self._consecutive else pool.index
            counter = NodeCounter(pool.name, index, phase)
            self.rows.setdefault(node, {})[self._build_key(pool, phase)] = counter
        self.changed[node] = None
        counter.counted_at_ms = now_ms
        self._expire(counter, now_ms)
        counter.count_hot()
        needed = self._find_condition(counter).consecutive_abnormalities
        if counter.abnormal_since_ms is None:
            if self._consecutive and counter.consecutive_abnormal >= needed:
                counter.abnormal_since_ms = now_ms
            elif not self._consecutive and counter.consecutive_abnormal > needed:
                counter.set_abnormal(now_ms)
        return counter.abnormal_since_ms is not None, counter.consecutive_abnormal

    def count_calm(self, nodes: Sequence[str], pool: Pool, phase: Phase, now_ms: int) -> None:
        """Count a calm round of nodes that have a counter, by loadstream's rules."""
        key = self._build_key(pool, phase)
        for node in nodes:
            counter = self._get_fresh(node, key, now_ms)
            if counter is None:
                continue
            counter.count_calm()
            counter.counted_at_ms = now_ms
            needed = pool.condition.consecutive_normalities
            if counter.abnormal_since_ms is None or counter.consecutive_normal >= needed:
                self._drop(node, key)
            self.changed[node] = None

    def count_evictions(self, nodes: Sequence[str], pool: Pool, phase: Phase, now_ms: int) -> None:
        """Count a round that evicted pods of the nodes, by Koordinator's rules (B3)."""
        for node in () if self._consecutive else nodes:
            counter = self._get_fresh(node, self._build_key(pool, phase), now_ms)
            if counter is None:
                continue
            self.changed[node] = None
            self._expire(counter, now_ms)
            counter.count_calm()
            needed = self._find_condition(counter).consecutive_normalities
            if counter.abnormal_since_ms is not None and counter.consecutive_normal > needed:
                counter.set_abnormal(None)

    def reset(self, node: str, pool: Pool, phase: Phase, now_ms: int) -> None:
        """End the abnormal state of a node that is not hot, by Koordinator's rules."""
        if self._consecutive:
            return
        counter = self._get_fresh(node, self._build_key(pool, phase), now_ms)
        if counter is not None and counter.abnormal_since_ms is not None:
            counter.set_abnormal(None)
            self.changed[node] = None

    def list_counted(self, pool: Pool, phase: Phase) -> list[str]:
        """Return nodes that have a counter of a pool and phase, by loadstream's rules."""
        if not self._consecutive:
            return []
        key = self._build_key(pool, phase)
        return [node for node, counters in self.rows.items() if key in counters]

    def list_abnormal(self, pool: Pool) -> list[str]:
        """Return nodes that are abnormal in a pool, even if they are calm now, by loadstream's rules."""
        if not self._consecutive:
            return []
        return [
            node
            for node, counters in self.rows.items()
            if any(
                name == pool.name and counter.abnormal_since_ms is not None
                for (name, _), counter in counters.items()
            )
        ]

    def drop_old(self, now_ms: int) -> None:
        """Drop counters that are too old."""
        for node, counters in list(self.rows.items()):
            for key in list(counters):
                self._get_fresh(node, key, now_ms)

    def remove_node(self, node: str) -> None:
        """Drop the counters of a removed node, except by Koordinator's rules."""
        if self._consecutive:
            self.drop(node)

    def describe_wait(self, rounds: int, pool: Pool) -> str:
        """Explain why pods do not leave a hot node yet."""
        needed = pool.condition.consecutive_abnormalities
        if self._consecutive:
            return f"hot for {rounds} of {needed} rounds in a row"
        return f"hot in {rounds} rounds; more than {needed} are needed"

    def _build_key(self, pool: Pool, phase: Phase) -> CounterKey:
        return (pool.name if self._consecutive else "", phase)

    def _expire(self, counter: NodeCounter, now_ms: int) -> None:
        """End the abnormal state a fixed time after it began, by Koordinator's rules (B3)."""
        since_ms = counter.abnormal_since_ms
        if self._consecutive or since_ms is None:
            return
        if since_ms + self._find_condition(counter).timeout_ms < now_ms:
            counter.set_abnormal(None)

    def _get_fresh(self, node: str, key: CounterKey, now_ms: int) -> NodeCounter | None:
        """Return the counter of a node; drop a counter that is too old, and return None."""
        counter = self.rows.get(node, {}).get(key)
        if counter is None:
            return None
        limit_ms = self._cache_ms
        if self._consecutive:
            if counter.abnormal_since_ms is not None:
                limit_ms = self._find_condition(counter).timeout_ms
            limit_ms = max(limit_ms, self._min_limit_ms)
        if limit_ms <= 0 or now_ms - counter.counted_at_ms <= limit_ms:
            return counter
        self._drop(node, key)
        return None

    def _drop(self, node: str, key: CounterKey) -> None:
        counters = self.rows[node]
        del counters[key]
        if not counters:
            del self.rows[node]
        self.changed[node] = None

    # --- rows -------------------------------------------------------------------------------------

    def build_row(self, key: str) -> HotspotCounterRow | None:
        counters = tuple(
            HotspotCounter(**asdict(counter))
            for _, counter in sorted(self.rows.get(key, {}).items())
        )
        if not counters:
            return None
        return HotspotCounterRow(cluster=self.cluster, node=key, counters=counters)

    def restore_row(self, row: HotspotCounterRow) -> None:
        self.rows[row.node] = {
            (counter.pool if self._consecutive else "", counter.phase): NodeCounter(
                **counter.model_dump()
            )
            for counter in row.counters
        }

    def _find_condition(self, counter: NodeCounter) -> AnomalyCondition:
        """Return the condition of the pool that created a counter."""
        if counter.pool_index is not None:
            return self._pools[counter.pool_index].condition
        return self._conditions[counter.pool]
