"""The one row of usage history.

Mean usage of the newest rounds, and what Koordinator's rounds filled in.
"""

from schemas.rounds import UsageHistoryRow
from streams.inventory.usage_history import UsageHistory
from streams.rebalance.koordinator.pools import FilledPools
from streams.stage.tracked_rows import TrackedRows


class UsageHistoryTable(TrackedRows[str, UsageHistoryRow]):
    """Row of kind `usage_history` of one cluster."""

    def __init__(self, cluster: str, history: UsageHistory) -> None:
        super().__init__("usage_history")
        self.cluster = cluster
        self.history = history
        self.filled: FilledPools | None = None
        """Maps that rounds fill; none: they fill none."""

    def __len__(self) -> int:
        """Of how many pools usage is known."""
        return len(self.history.means)

    def fill(self, filled: FilledPools | None) -> None:
        """Rounds fill these maps; those that were filled before are given up."""
        if self.filled is not None and self.filled.row() is not None:
            self.changed[""] = None
        self.filled = filled

    def row(self, key: str) -> UsageHistoryRow | None:
        """The row; None: no usage is remembered, and no map is filled."""
        maps = None if self.filled is None else self.filled.row()
        if not self.history.means and not maps:
            return None
        return UsageHistoryRow(cluster=self.cluster, means=self.history.means, filled=maps)

    def note_changed(self) -> None:
        """The row, if it has changed since the last call."""
        filled = self.filled
        if self.history.changed or (filled is not None and filled.changed):
            self.changed[""] = None
        self._written()

    def take(self, row: UsageHistoryRow) -> None:
        """Take over the row as it was written."""
        self.history.means = {pool: dict(means) for pool, means in row.means.items()}
        if self.filled is not None:
            self.filled.restore(row.filled)
        self._written()

    def _written(self) -> None:
        self.history.changed = False
        if self.filled is not None:
            self.filled.changed = False
