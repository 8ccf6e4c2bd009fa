"""Counts of all migrations of a cluster, and when arbitration ran last."""

from schemas.messages.migrations import MigrationStateRow
from streams.stage.tracked_rows import TrackedRows


class Progress(TrackedRows[str, MigrationStateRow]):
    """One row; it is the cluster's own, so its key is empty."""

    def __init__(self, cluster: str) -> None:
        super().__init__("migration_state")
        self.cluster = cluster
        self.arbitrated_at_ms = 0
        """The log's time at which arbitration ran last."""
        self.created = 0
        """How many migrations have been created."""
        self.passed = 0
        """How many have passed arbitration."""

    def note(self) -> None:
        """Something of it has changed."""
        self.changed[""] = None

    def row(self, key: str) -> MigrationStateRow:
        """The row as it is now."""
        return MigrationStateRow(
            cluster=self.cluster,
            arbitrated_at_ms=self.arbitrated_at_ms,
            created=self.created,
            passed=self.passed,
        )

    def take(self, row: MigrationStateRow) -> None:
        """Take over the row as it was written."""
        self.arbitrated_at_ms = row.arbitrated_at_ms
        self.created, self.passed = row.created, row.passed
