"""Clusters in which loadstream itself failed. Clusters that fail often are set apart.

A cluster that is set apart keeps its rows, and its records go to `dead-letters`. A policy record brings
the cluster back, and so does another version of loadstream, which may have fixed the defect. Failures are
stored in rows of kind `failed_clusters`, so they survive a restart.
"""

from schemas.base.refusals import REASON_CHARS_MAX, Refusal
from schemas.policy.durations import format_duration_ms
from schemas.storage.rows import FailedClusterRow
from streams.stage.tracked_rows import TrackedRows
from streams.stage.version import VERSION

KIND = "failed_clusters"
#: A cluster with this many failures in this log time is set apart. After a failure, the other clusters of
#: the partition wait until the cluster is restored, which takes seconds for a large one.
FAILURES_MAX = 3
FAILURE_WINDOW_MS = 600_000


class FailedClusters(TrackedRows[str, FailedClusterRow]):
    """Rows of kind `failed_clusters` of one partition."""

    def __init__(self) -> None:
        super().__init__(KIND, lambda row: row.cluster)

    def restore_row(self, row: FailedClusterRow) -> None:
        """Restore a row, unless another version of loadstream set the cluster apart."""
        self.rows[row.cluster] = row
        if row.set_apart and row.version != VERSION:
            self.drop(row.cluster)

    def find_apart(self, cluster: str) -> FailedClusterRow | None:
        """Return the row of a cluster if it is set apart."""
        row = self.rows.get(cluster)
        return row if row is not None and row.set_apart else None

    def list_apart(self) -> list[str]:
        return sorted(row.cluster for row in self.rows.values() if row.set_apart)

    def count_failure(self, cluster: str, reason: str, now_ms: int) -> bool:
        """Note a failure; return whether the cluster has failed too often."""
        row = self._row_of(cluster)
        recent = [
            failed_ms for failed_ms in row.failed_at_ms if now_ms - failed_ms < FAILURE_WINDOW_MS
        ]
        # The failures of one batch are not always noted in the order of their records.
        times = tuple(sorted([*recent, now_ms])[-FAILURES_MAX:])
        self.put(row.model_copy(update={"failed_at_ms": times, "reason": _shorten(reason)}))
        return len(times) >= FAILURES_MAX

    def set_apart(self, cluster: str, reason: str, now_ms: int) -> str:
        """Set a cluster apart; return a text for users with the reason."""
        update = {
            "set_apart": True,
            "set_apart_at_ms": now_ms,
            "reason": _shorten(reason),
            "version": VERSION,
        }
        row = self._row_of(cluster).model_copy(update=update)
        self.put(row)
        return _explain_apart(row)

    def count_missed(self, cluster: str, topic: str) -> Refusal:
        """Count a record that a cluster misses because it is set apart; return the record's refusal."""
        row = self.rows[cluster]
        missed = {**row.missed, topic: row.missed.get(topic, 0) + 1}
        self.put(row.model_copy(update={"missed": dict(sorted(missed.items()))}))
        return Refusal("apart", _explain_apart(row))

    def bring_back(self, cluster: str, now_ms: int) -> str:
        """Forget the failures of a cluster; return a text for users with the numbers of missed records."""
        row = self.rows[cluster]
        self.drop(cluster)
        missed = ", ".join(f"{count} of {topic}" for topic, count in row.missed.items()) or "none"
        duration = ""
        if row.set_apart_at_ms:  # 0 means before the first clock tick
            duration = f" for {format_duration_ms(max(0, now_ms - row.set_apart_at_ms))}"
        return (
            f"the cluster was set apart{duration}; a policy record has brought it back. Missed records "
            f"(in dead-letters): {missed}. Full lists of nodes and pods restore its state; scheduling "
            "requests must be sent again"
        )

    def forget_old(self, now_ms: int) -> None:
        """Forget the failures of clusters that have not failed within the window."""
        for row in list(self.rows.values()):
            if not row.set_apart and now_ms - row.failed_at_ms[-1] >= FAILURE_WINDOW_MS:
                self.drop(row.cluster)

    def _row_of(self, cluster: str) -> FailedClusterRow:
        return self.rows.get(cluster) or FailedClusterRow(cluster=cluster)


def _explain_apart(row: FailedClusterRow) -> str:
    return (
        f"cluster {row.cluster} is set apart after a defect of loadstream: {row.reason}. To bring it "
        f"back, run `loadstream cluster resume {row.cluster}`, send another policy, or install another "
        "version of loadstream"
    )


def _shorten(reason: str) -> str:
    return reason[: REASON_CHARS_MAX // 2]
