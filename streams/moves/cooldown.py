"""Nodes that moves have left, and whether they have cooled since.

A node is cooling for a named time after it was hot last, and until it has sent some fresh metrics
by which it is not: the average of a metric lags behind, so the first one alone proves nothing. The
time is at least two intervals between rounds, so that one has looked at the node in between. Only
nodes are kept that an owner's memory names; `history` drops the others.
"""

from schemas.messages.moves import CoolingNodeRow
from schemas.policy import Policy
from streams.stage.tracked_rows import TrackedRows

#: A node that sends no metrics is cooling for at most this long.
COOLING_MAX_MS = 86_400_000


class Cooldown(TrackedRows[str, CoolingNodeRow]):
    """Hot and cooling nodes of one cluster, by name."""

    def __init__(self, cluster: str, policy: Policy) -> None:
        super().__init__("cooling_nodes", lambda row: row.node, sorted_keys=True)
        self.cluster = cluster
        self.set_policy(policy)

    def set_policy(self, policy: Policy) -> None:
        """Let nodes cool by another policy."""
        interval_ms = policy.descheduling.descheduling_interval_ms
        self.cooling_ms = max(policy.moves.cooling_seconds * 1000, 2 * interval_ms)
        self.cooling_metrics = policy.moves.cooling_metrics

    def hot(self, node: str, now_ms: int) -> None:
        """The node is hot now, and is kept."""
        self.put(CoolingNodeRow(cluster=self.cluster, node=node, hot_at_ms=now_ms))

    def metric(self, node: str, updated_at_ms: int) -> None:
        """A node has sent a metric; costs a look-up where nothing is kept of it.

        Only one that is newer than the last one, and than the moment at which the node was hot
        last, says something new.
        """
        row = self.rows.get(node)
        if row is None or updated_at_ms <= max(row.hot_at_ms, row.metric_at_ms):
            return
        if row.metrics < self.cooling_metrics:
            update = {"metrics": row.metrics + 1, "metric_at_ms": updated_at_ms}
            self.put(row.model_copy(update=update))

    def cooling(self, node: str, now_ms: int) -> bool:
        """The node was hot, and too little time or too few metrics have come since."""
        row = self.rows.get(node)
        if row is None:
            return False
        age_ms = now_ms - row.hot_at_ms
        if age_ms < self.cooling_ms:
            return True
        return row.metrics < self.cooling_metrics and age_ms < COOLING_MAX_MS

    def put(self, row: CoolingNodeRow) -> None:
        """Keep what is known of a node now."""
        if self.rows.get(row.node) != row:
            super().put(row)
