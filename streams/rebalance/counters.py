"""For how many rounds in a row a node has been hot, and since when it counts as abnormal.

A node becomes abnormal after `consecutiveAbnormalities` hot rounds in a row and normal again after
`consecutiveNormalities` calm rounds in a row; one round of the other kind begins the count anew. A
round that cannot judge a node, for want of a fresh metric, neither counts nor breaks a row, but
what no round has judged for a while is forgotten: an abnormal state after the condition's
`timeout`, a count after `detectorCacheTimeout`, neither before two intervals between rounds have
gone by. Unlike Koordinator's (`streams.rebalance.koordinator.detectors`, docs/upstream.md X10 to
X13), counts are really consecutive, N means N, and calm rounds really end the abnormal state.
"""

from dataclasses import dataclass

from schemas.policy.lownodeload import AnomalyCondition
from schemas.rounds import HotspotCounter, HotspotCounterRow
from streams.rebalance.candidates import Phase
from streams.stage.tracked_table import TrackedTable

#: Pool and phase.
Watch = tuple[str, Phase]


@dataclass(slots=True)
class Counter:
    """Rounds of one node in one pool and phase."""

    abnormal: int = 0
    """Hot rounds since the last calm one."""
    normal: int = 0
    """Calm rounds since the last hot one."""
    since_ms: int | None = None
    """Since when the node counts as abnormal; none: it does not."""
    counted_ms: int = 0
    """The last round that judged it."""


class Counters(TrackedTable[str, dict[Watch, Counter]]):
    """Counters of all nodes that are or were hot lately, by node."""

    def __init__(self, cluster: str, count_timeout_ms: int, interval_ms: int) -> None:
        """Start without any.

        Args:
            cluster: whose nodes they are.
            count_timeout_ms: a count is forgotten when no round has judged its node for so long.
            interval_ms: time between rounds.
        """
        super().__init__("hotspot_counters", sorted_keys=True)
        self.cluster = cluster
        self._count_timeout_ms = count_timeout_ms
        self._least_ms = 2 * interval_ms

    def hot(self, node: str, watch: Watch, condition: AnomalyCondition, now_ms: int) -> Counter:
        """The node is over in this round."""
        counter = self._find(node, watch, condition.timeout_ms, now_ms)
        if counter is None:
            counter = self.rows.setdefault(node, {})[watch] = Counter()
        counter.abnormal, counter.normal = counter.abnormal + 1, 0
        if counter.since_ms is None and counter.abnormal >= condition.consecutive_abnormalities:
            counter.since_ms = now_ms
        counter.counted_ms = now_ms
        self.changed[node] = None
        return counter

    def calm(self, node: str, watch: Watch, condition: AnomalyCondition, now_ms: int) -> None:
        """The node is not over in this round; costs nothing where it was not either before."""
        counter = self._find(node, watch, condition.timeout_ms, now_ms)
        if counter is None:
            return
        counter.normal, counter.abnormal = counter.normal + 1, 0
        counter.counted_ms = now_ms
        if counter.since_ms is None or counter.normal >= condition.consecutive_normalities:
            self._drop(node, watch)
        self.changed[node] = None

    def abnormal(self, pool: str) -> list[str]:
        """Nodes that count as abnormal in a pool, even if they are calm at the moment."""
        return [
            node
            for node, of_node in self.rows.items()
            if any(
                watch[0] == pool and counter.since_ms is not None
                for watch, counter in of_node.items()
            )
        ]

    def watched(self, watch: Watch) -> list[str]:
        """Nodes that have a count in a pool and phase."""
        return [node for node, of_node in self.rows.items() if watch in of_node]

    def forget(self, timeouts_ms: dict[Watch, int], now_ms: int) -> None:
        """Drop what no round has judged for too long.

        Args:
            timeouts_ms: timeout of the abnormal state per pool and phase; what is not among them is
                no longer a pool.
            now_ms: time of the round.
        """
        for node, of_node in list(self.rows.items()):
            for watch in list(of_node):
                if watch in timeouts_ms:
                    self._find(node, watch, timeouts_ms[watch], now_ms)
                else:
                    self._drop(node, watch)

    def _find(self, node: str, watch: Watch, timeout_ms: int, now_ms: int) -> Counter | None:
        counter = self.rows.get(node, {}).get(watch)
        if counter is None:
            return None
        limit_ms = self._count_timeout_ms if counter.since_ms is None else timeout_ms
        if now_ms - counter.counted_ms <= max(limit_ms, self._least_ms):
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
                pool=pool,
                phase=phase,
                consecutive_abnormal=counter.abnormal,
                consecutive_normal=counter.normal,
                abnormal_since_ms=counter.since_ms,
                counted_at_ms=counter.counted_ms,
            )
            for (pool, phase), counter in sorted(self.rows.get(key, {}).items())
        )
        if not counters:
            return None
        return HotspotCounterRow(cluster=self.cluster, node=key, counters=counters)

    def take(self, row: HotspotCounterRow) -> None:
        """Take over a row as it was written."""
        self.rows[row.node] = {
            (each.pool, each.phase): Counter(
                each.consecutive_abnormal,
                each.consecutive_normal,
                each.abnormal_since_ms,
                each.counted_at_ms,
            )
            for each in row.counters
        }
