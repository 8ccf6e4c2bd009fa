"""Nodes that moves have left, until they have cooled.

A node is cooling until two conditions are met. First, `coolingSeconds` have passed since the node was hot,
or two intervals between rounds if that is longer, so that a round can find the node hot again. Second, the
node has sent `coolingMetrics` newer metrics, because metrics are averages and lag behind. `history` drops
nodes that no recent move has left.
"""

from collections.abc import Container

from schemas.messages.moves import CoolingNodeRow
from schemas.policy import Policy
from streams.stage.tracked_rows import TrackedRows

#: A node without metrics is cooling for this long.
COOLING_MAX_MS = 86_400_000


class Cooldown(TrackedRows[str, CoolingNodeRow]):
    """Hot and cooling nodes of one cluster, by name."""

    def __init__(self, cluster: str, policy: Policy) -> None:
        super().__init__("cooling_nodes", lambda row: row.node, sorted_keys=True)
        self.cluster = cluster
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        interval_ms = policy.descheduling.descheduling_interval_ms
        self.cooling_ms = max(policy.moves.cooling_seconds * 1000, 2 * interval_ms)
        self.cooling_metrics = policy.moves.cooling_metrics

    def record_hot(self, node: str, now_ms: int) -> None:
        self.put(CoolingNodeRow(cluster=self.cluster, node=node, hot_at_ms=now_ms))

    def record_hot_nodes(self, hot: Container[str], now_ms: int) -> None:
        """Record that a round has found nodes hot; nodes that are not cooling are ignored."""
        for node in [node for node in self.rows if node in hot]:
            self.record_hot(node, now_ms)

    def record_metric(self, node: str, updated_at_ms: int) -> None:
        """Count a metric if it is newer than the last counted metric and than the node's last hot time."""
        row = self.rows.get(node)
        if row is None or updated_at_ms <= max(row.hot_at_ms, row.metric_at_ms):
            return
        if row.metrics < self.cooling_metrics:
            update = {"metrics": row.metrics + 1, "metric_at_ms": updated_at_ms}
            self.put(row.model_copy(update=update))

    def is_cooling(self, node: str, now_ms: int) -> bool:
        row = self.rows.get(node)
        if row is None:
            return False
        age_ms = now_ms - row.hot_at_ms
        if age_ms < self.cooling_ms:
            return True
        return row.metrics < self.cooling_metrics and age_ms < COOLING_MAX_MS

    def put(self, row: CoolingNodeRow) -> None:
        if self.rows.get(row.node) != row:
            super().put(row)
