"""The row of usage history: mean usage of recent rounds, and threshold maps filled in by Koordinator's
rules.
"""

from schemas.messages.rounds import UsageHistoryRow
from streams.rebalance.thresholds.pools import Pools
from streams.stage.tracked_rows import TrackedRows
from streams.usage.moving_thresholds import UsageHistory


class UsageHistoryTable(TrackedRows[str, UsageHistoryRow]):
    """Row of kind `usage_history` of one cluster."""

    def __init__(self, cluster: str, history: UsageHistory, pools: Pools) -> None:
        super().__init__("usage_history")
        self.cluster = cluster
        self.history = history
        self.pools = pools

    def __len__(self) -> int:
        return len(self.history.means)

    def change_pools(self, pools: Pools) -> None:
        """Keep the maps of another policy, and drop the earlier ones."""
        if self.pools.row() is not None:
            self.changed[""] = None
        self.pools = pools

    def row(self, key: str) -> UsageHistoryRow | None:
        maps = self.pools.row()
        if not self.history.means and not maps:
            return None
        return UsageHistoryRow(cluster=self.cluster, means=self.history.means, filled=maps)

    def note_changed(self) -> None:
        if self.history.changed or self.pools.changed:
            self.changed[""] = None
        self._note_written()

    def take(self, row: UsageHistoryRow) -> None:
        self.history.means = {pool: dict(means) for pool, means in row.means.items()}
        self.pools.restore(row.filled)
        self._note_written()

    def _note_written(self) -> None:
        self.history.changed = False
        self.pools.changed = False
