"""Clusters that made loadstream itself fail, and those that are set apart because of it.

A record whose application fails is refused and changes nothing. Where that happens again and again,
or the cluster can no longer be put together from its rows, the cluster is set apart: its rows stay
as they are, its records go to `dead-letters`, and the others go on. It comes back with a policy
record, also with the one that holds already, or with another version of loadstream. All of this is
in rows, so a restart changes nothing.
"""

from schemas.base import Message
from schemas.policy.durations import format_duration_ms
from schemas.refusals import REASON_CHARS_MAX, Refusal
from schemas.rows import FailedClusterRow
from streams.cluster.rounds import no_round
from streams.inventory.cause import Cause
from streams.stage.tracked_table import TrackedRows

TABLE = "failed_clusters"
#: A cluster that fails so often within so much of the log's time is set apart: putting it together
#: again takes seconds where it is large, and the other clusters of the partition wait meanwhile.
FAILURES_MAX = 3
FAILURES_MS = 600_000


class Failures(TrackedRows[str, FailedClusterRow]):
    """The failures of a partition's clusters, by cluster."""

    def __init__(self, version: str) -> None:
        """`version` is that of loadstream: another one may have mended the cause."""
        super().__init__(TABLE, lambda row: row.cluster)
        self._version = version

    def take(self, row: FailedClusterRow) -> None:
        """Take over a row; a cluster that another version had set apart comes back."""
        self.rows[row.cluster] = row
        if row.set_apart and row.version != self._version:
            self.come_back(row.cluster)

    def apart(self, cluster: str) -> FailedClusterRow | None:
        """The row of a cluster that is set apart; None: it is not."""
        row = self.rows.get(cluster)
        return row if row is not None and row.set_apart else None

    def all_apart(self) -> list[str]:
        """The clusters that are set apart."""
        return sorted(row.cluster for row in self.rows.values() if row.set_apart)

    def note(self, cluster: str, reason: str, now_ms: int) -> bool:
        """A cluster has failed; whether that was once too often."""
        row = self.rows.get(cluster) or FailedClusterRow(cluster=cluster)
        recent = tuple(each for each in row.failed_at_ms if now_ms - each < FAILURES_MS)
        times = (*recent, now_ms)[-FAILURES_MAX:]
        self.put(row.model_copy(update={"failed_at_ms": times, "reason": _cut(reason)}))
        return len(times) >= FAILURES_MAX

    def set_apart(self, cluster: str, reason: str, now_ms: int) -> None:
        """From now on the cluster's records are not applied."""
        row = self.rows.get(cluster) or FailedClusterRow(cluster=cluster)
        update = {"set_apart": True, "set_apart_at_ms": now_ms, "reason": _cut(reason)}
        self.put(row.model_copy(update={**update, "version": self._version}))

    def miss(self, cluster: str, topic: str) -> Refusal:
        """A record came for a cluster that is set apart; answers why it is not applied."""
        row = self.rows[cluster]
        missed = {**row.missed, topic: row.missed.get(topic, 0) + 1}
        self.put(row.model_copy(update={"missed": dict(sorted(missed.items()))}))
        return Refusal("apart", apart_text(row))

    def come_back(self, cluster: str) -> FailedClusterRow:
        """The cluster is tried again; answers with what was kept of it."""
        self.changed[cluster] = None
        return self.rows.pop(cluster)

    def tidy(self, now_ms: int) -> None:
        """Forget failures that are long ago."""
        for row in list(self.rows.values()):
            if not row.set_apart and now_ms - row.failed_at_ms[-1] >= FAILURES_MS:
                self.come_back(row.cluster)


def apart_text(row: FailedClusterRow) -> str:
    """Why a cluster is set apart, and how it comes back."""
    return (
        f"cluster {row.cluster} is set apart after a defect of loadstream: {row.reason}. It comes back with "
        f"`loadstream policy resume {row.cluster}` or another policy, or with another version of loadstream"
    )


def set_apart_record(row: FailedClusterRow, cause: Cause) -> Message:
    """What is said when a cluster is set apart, where `why-not` looks."""
    return no_round(cause, apart_text(row), dry_run=True)


def back_record(row: FailedClusterRow, cause: Cause) -> Message:
    """What is said when a cluster comes back, with what it has missed."""
    missed = ", ".join(f"{count} of {topic}" for topic, count in row.missed.items()) or "none"
    apart = ""
    if row.set_apart_at_ms:  # otherwise before the clock ticked first
        apart = f" for {format_duration_ms(max(0, cause.now_ms - row.set_apart_at_ms))}"
    text = (
        f"the cluster is back with a policy record after it was set apart{apart}; records that it missed, "
        f"which are in dead-letters: {missed}. Full lists of nodes and pods make up for states; requests "
        "have to be sent again"
    )
    return no_round(cause, text, dry_run=True)


def _cut(reason: str) -> str:
    return reason[: REASON_CHARS_MAX // 2]
