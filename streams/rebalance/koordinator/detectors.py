"""Koordinator's anomaly detectors (`compat: koordinator`), with what surprises in them.

A detector belongs to a node's name and a phase and is shared by all pools; it keeps the counts and
the timeout of the pool that made it. More marks than `consecutiveAbnormalities` are needed; a round
in which the node is not over marks nothing, so that marks need not be consecutive; the anomalous
state ends a fixed time after it began. Source: docs/upstream.md B3, B5.4, B5.10, X10 to X13.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from schemas.policy.lownodeload import AnomalyCondition
from schemas.rounds import HotspotCounter, HotspotCounterRow
from streams.rebalance.candidates import Phase
from streams.stage.tracked_table import TrackedTable


@dataclass(slots=True)
class Detector:
    """Marks of one node in one phase."""

    pool: str
    """The pool that made it."""
    pool_index: int | None
    """The place of that pool among all: several may have one name."""
    condition: AnomalyCondition
    abnormal: int = 0
    normal: int = 0
    since_ms: int | None = None
    """When the anomalous state began; none: the node is not anomalous."""
    marked_ms: int = 0
    """The last abnormal mark: it is forgotten some time after that."""

    def mark(self, now_ms: int, *, normal: bool) -> bool:
        """Mark a round; True if the node is anomalous then."""
        condition = self.condition
        if self.since_ms is not None and self.since_ms + condition.timeout_ms < now_ms:
            self._begin(None)
        if normal:
            self.normal, self.abnormal = self.normal + 1, 0
            if self.since_ms is not None and self.normal > condition.consecutive_normalities:
                self._begin(None)
        else:
            self.abnormal, self.normal = self.abnormal + 1, 0
            if self.since_ms is None and self.abnormal > condition.consecutive_abnormalities:
                self._begin(now_ms)
        return self.since_ms is not None

    def reset(self) -> bool:
        """The node is no longer over; True if that ended an anomalous state."""
        if self.since_ms is None:
            return False
        self._begin(None)
        return True

    def _begin(self, since_ms: int | None) -> None:
        self.since_ms = since_ms
        self.abnormal = self.normal = 0


class Detectors(TrackedTable[str, dict[Phase, Detector]]):
    """All detectors of a cluster, by node."""

    def __init__(
        self,
        cluster: str,
        cache_timeout_ms: int,
        conditions: Sequence[tuple[str, AnomalyCondition]],
    ) -> None:
        """Start without any; `conditions` are the pools' names and conditions, in their order."""
        super().__init__("hotspot_counters", sorted_keys=True)
        self.cluster = cluster
        self._conditions = conditions
        self._timeout_ms = cache_timeout_ms

    def mark_abnormal(self, node: str, phase: Phase, pool_index: int, now_ms: int) -> bool:
        """The node is over in this round of a pool; True if it has been so for long enough."""
        detector = self._find(node, phase, now_ms)
        if detector is None:
            pool, condition = self._conditions[pool_index]
            detector = Detector(pool, pool_index, condition)
            self.rows.setdefault(node, {})[phase] = detector
        self.changed[node] = None
        detector.marked_ms = now_ms
        return detector.mark(now_ms, normal=False)

    def mark_normal(self, node: str, phase: Phase, now_ms: int) -> None:
        """Something was done about the node."""
        detector = self._find(node, phase, now_ms)
        if detector is not None:
            self.changed[node] = None
            detector.mark(now_ms, normal=True)

    def reset(self, node: str, phase: Phase, now_ms: int) -> None:
        """The node is calm."""
        detector = self._find(node, phase, now_ms)
        if detector is not None and detector.reset():
            self.changed[node] = None

    def rounds(self, node: str, phase: Phase) -> int:
        """Abnormal marks of a node that have not been followed by another."""
        detector = self.rows.get(node, {}).get(phase)
        return 0 if detector is None else detector.abnormal

    def forget(self, now_ms: int) -> None:
        """Drop what is too old to be found again."""
        for node in list(self.rows):
            for phase in list(self.rows[node]):
                self._find(node, phase, now_ms)

    def _find(self, node: str, phase: Phase, now_ms: int) -> Detector | None:
        of_node = self.rows.get(node)
        detector = None if of_node is None else of_node.get(phase)
        if of_node is None or detector is None:
            return None
        if self._timeout_ms <= 0 or now_ms - detector.marked_ms <= self._timeout_ms:
            return detector
        del of_node[phase]
        if not of_node:
            del self.rows[node]
        self.changed[node] = None
        return None

    # --- rows -------------------------------------------------------------------------------------

    def row(self, key: str) -> HotspotCounterRow | None:
        """The row of a node."""
        counters = tuple(
            HotspotCounter(
                pool=detector.pool,
                pool_index=detector.pool_index,
                phase=phase,
                consecutive_abnormal=detector.abnormal,
                consecutive_normal=detector.normal,
                abnormal_since_ms=detector.since_ms,
                counted_at_ms=detector.marked_ms,
            )
            for phase, detector in sorted(self.rows.get(key, {}).items())
        )
        if not counters:
            return None
        return HotspotCounterRow(cluster=self.cluster, node=key, counters=counters)

    def take(self, row: HotspotCounterRow) -> None:
        """Take over a row as it was written."""
        self.rows[row.node] = {
            each.phase: Detector(
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
        index = counter.pool_index
        if index is not None and index < len(self._conditions):
            name, condition = self._conditions[index]
            if name == counter.pool:
                return condition
        return dict(self._conditions).get(counter.pool, AnomalyCondition())
