"""The clusters of one partition: a defect of loadstream in one of them does not stop the others.

Each cluster applies its records of a batch in one attempt. If a record raises an exception:

1. The record becomes a dead letter. A clock tick still advances the cluster's clock.
2. The cluster is restored from its rows as of the last batch.
3. The next attempt applies the batch's records again, without those that failed. It encodes the
   changed rows after each record: if a row cannot be encoded, this record is to blame.

A cluster is set apart (see `failures`) after three failures in ten minutes: the results of earlier
records stay, and later records become dead letters. A cluster is also set apart if no record is to blame,
for example because its rows cannot be read. Then all its records of the batch become dead letters.

Results do not depend on where batches end or when a worker restarts. There is one exception: a row
that cannot be encoded goes unnoticed if a later record of the batch replaces it.
"""

import logging
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.base.refusals import Refusal
from schemas.messages.clock import ClockTick
from schemas.messages.policies import PolicyRecord
from schemas.messages.usage import key_node
from schemas.storage.tables import row_key
from schemas.topics.catalog import node_key
from schemas.topics.codec import encode_fields
from schemas.topics.partitions import find_policy_numbers
from streams.cluster.failures import KIND, FailedClusters
from streams.cluster.round_message import build_stopped_round
from streams.cluster.state import ClusterState, Position
from streams.cluster.tables import (
    RowsByKind,
    delete_last_rows,
    group_rows,
    restore,
    take_changed_rows,
)
from streams.stage.cause import Cause, build_as_of
from streams.stage.packing import apply_changes
from streams.stage.records import DamagedTable, InputRecord, OutputMessage, OutputRecord, RowChange

logger = logging.getLogger(__name__)

#: Returns a cluster's rows as of the end of the previous batch.
Recall = Callable[[str], Mapping[str, bytes]]


@dataclass(frozen=True, slots=True)
class EncodedOutput:
    """A message and its encoded record."""

    message: OutputMessage
    record: OutputRecord


@dataclass(slots=True, eq=False)
class BatchRecord:
    """An input record and its results. A clock tick is for all clusters, any other record for one."""

    source: InputRecord
    offsets: dict[str, int]
    """Offset of the last record of each input topic, including this record."""
    now_ms: int | None = None
    """Log time at which the record is applied; None before the first clock tick."""
    message: Any = None
    """The decoded record; None if no cluster applies it."""
    refusal: Refusal | None = None
    """Why the record becomes a dead letter; None if it does not."""
    outputs: list[EncodedOutput] = field(default_factory=list)
    notices: list[EncodedOutput] = field(default_factory=list)
    """Messages about clusters that were set apart or came back, published after the outputs."""

    @property
    def is_tick(self) -> bool:
        return isinstance(self.message, ClockTick)

    def refuse(self, refusal: Refusal) -> None:
        self.refusal = self.refusal or refusal


@dataclass(slots=True)
class _Attempt:
    """The state, results and rows that one cluster computes from its records of a batch."""

    state: ClusterState | None
    """None if nothing is known about the cluster."""
    results: list[tuple[BatchRecord, Refusal | list[EncodedOutput]]] = field(default_factory=list)
    rows: dict[str, RowChange] = field(default_factory=dict)
    problem: str = ""
    """The exception that ended the attempt, as text: the exception would keep the state alive."""
    failed_record: BatchRecord | None = None
    """The record that caused the problem; None if rows caused it."""

    def add_rows(self, rows: Iterable[RowChange]) -> None:
        self.rows.update({row.key: row for row in rows})


class Clusters:
    """States of a partition's clusters."""

    def __init__(self, partition: int, partitions: int, recall: Recall | None) -> None:
        self._partition = partition
        self._partitions = partitions
        self._recall = recall
        self.states: dict[str, ClusterState] = {}
        self.failures = FailedClusters()
        self._rows: dict[str, dict[str, RowChange]] = {}
        """Rows changed by the current batch: by cluster, then by key."""

    def apply(self, batch: Sequence[BatchRecord], start_ms: int | None) -> list[RowChange]:
        """Apply a batch and return the changed rows; `start_ms` is the log time before the batch."""
        by_cluster: dict[str, list[BatchRecord]] = {cluster: [] for cluster in self.states}
        for record in batch:
            if record.is_tick:
                for records in by_cluster.values():
                    records.append(record)
            elif record.message is not None:
                by_cluster.setdefault(record.message.cluster, []).append(record)
        for cluster in sorted(by_cluster):
            self._apply_to(cluster, by_cluster[cluster], start_ms)
        if batch and batch[-1].now_ms is not None:
            self.failures.forget_old(batch[-1].now_ms)
        rows = [row for cluster_rows in self._rows.values() for row in cluster_rows.values()]
        self._rows.clear()
        for cluster, row in self.failures.take_changed_rows():
            rows.append(RowChange(row_key(self._partition, cluster, KIND), row))
        return rows

    def _apply_to(self, cluster: str, records: list[BatchRecord], start_ms: int | None) -> None:
        """Apply a cluster's records; `start_ms` is the log time before the first of them.

        A cluster that is set apart misses all records up to a policy record, which brings it back.
        """
        if not records:
            return
        if self.failures.find_apart(cluster) is None:
            self._retry_until_applied(cluster, records, start_ms)
            return
        are_policies = [isinstance(record.message, PolicyRecord) for record in records]
        index = are_policies.index(True) if any(are_policies) else len(records)
        self._refuse_missed(cluster, records[:index])
        if index < len(records):
            policy = records[index]
            text = self.failures.bring_back(cluster, policy.now_ms or 0)
            if self._retry_until_applied(cluster, records[index:], policy.now_ms, from_rows=True):
                self._notify(cluster, text, policy)

    def _retry_until_applied(
        self,
        cluster: str,
        records: list[BatchRecord],
        start_ms: int | None,
        *,
        from_rows: bool = False,
    ) -> bool:
        """Apply the records. After a failure, apply them again without the failed records.

        Returns False, and applies none of the records, if a failure has no record to blame. Later
        attempts restore the cluster from its rows; with `from_rows`, the first attempt does too.
        """
        failed: list[BatchRecord] = []
        missed: list[BatchRecord] = []
        apart_reason, newest = "", records[-1]
        while (attempt := self._attempt(cluster, records, failed, start_ms, from_rows)).problem:
            self.states.pop(cluster, None)
            record = attempt.failed_record
            if record is not None:
                record.refuse(Refusal("internal", attempt.problem))
                failed.append(record)
                reason = f"{record.source.topic} offset {record.source.offset}: {attempt.problem}"
                if self.failures.count_failure(cluster, reason, record.now_ms or 0):
                    index = records.index(record)
                    missed = [*records[index + 1 :], *missed]
                    records, apart_reason, newest = records[:index], reason, record
            elif from_rows:
                reason = f"its rows cannot be read or written: {attempt.problem}"
                self._set_apart(cluster, reason, newest)
                self._refuse_missed(cluster, [*records, *missed])
                return False
            from_rows = True
        self._commit(cluster, attempt)
        if apart_reason:
            self._set_apart(cluster, apart_reason, newest)
            self._apply_to(cluster, missed, newest.now_ms)
        return True

    def _attempt(
        self,
        cluster: str,
        records: Sequence[BatchRecord],
        failed: Collection[BatchRecord],
        start_ms: int | None,
        from_rows: bool,
    ) -> _Attempt:
        attempt = _Attempt(None if from_rows else self.states.get(cluster))
        try:
            if from_rows:
                attempt.state = self._restore(cluster, start_ms)
            for record in records:
                attempt.failed_record = record
                if record not in failed:
                    self._apply_record(cluster, record, attempt)
                elif record.is_tick and attempt.state is not None:
                    attempt.state.skip_to(record.message.now_ms)
                if from_rows and attempt.state is not None:
                    attempt.add_rows(take_changed_rows(attempt.state, self._partition))
            attempt.failed_record = None
            if attempt.state is not None:
                attempt.add_rows(take_changed_rows(attempt.state, self._partition))
        except Exception as error:
            logger.exception("cluster %s failed", cluster)
            attempt.problem = f"{type(error).__name__}: {error}"
        return attempt

    def _apply_record(self, cluster: str, record: BatchRecord, attempt: _Attempt) -> None:
        state = attempt.state
        if state is None:
            if record.is_tick:
                return
            state = ClusterState(cluster)
            if record.now_ms is not None:
                state.advance(record.now_ms)
        topic, offset = record.source.topic, record.source.offset
        position = Position(topic, self._partition, offset, record.offsets)
        result = state.apply(record.message, position)
        if isinstance(result, Refusal):
            attempt.results.append((record, result))
        else:
            outputs = encode_outputs(result, self._partitions, record.now_ms)
            attempt.results.append((record, outputs))
        if not state.is_empty:
            attempt.state = state
        elif record.is_tick:
            attempt.state = None
            attempt.add_rows(delete_last_rows(state, self._partition))

    def _commit(self, cluster: str, attempt: _Attempt) -> None:
        if attempt.state is None:
            self.states.pop(cluster, None)
        else:
            self.states[cluster] = attempt.state
        self._rows.setdefault(cluster, {}).update(attempt.rows)
        for record, result in attempt.results:
            if isinstance(result, Refusal):
                record.refuse(result)
            else:
                record.outputs += result

    # --- clusters that are set apart ------------------------------------------------------------

    def _refuse_missed(self, cluster: str, records: Sequence[BatchRecord]) -> None:
        for record in records:
            if not record.is_tick and record.refusal is None:
                record.refuse(self.failures.count_missed(cluster, record.source.topic))

    def _set_apart(self, cluster: str, reason: str, record: BatchRecord) -> None:
        self.states.pop(cluster, None)
        text = self.failures.set_apart(cluster, reason, record.now_ms or 0)
        logger.error("%s", text)
        self._notify(cluster, text, record)

    def _notify(self, cluster: str, text: str, record: BatchRecord) -> None:
        # The message has the form of a round's message, because `cluster why-not` shows those.
        if record.now_ms is None:
            return
        source, as_of = record.source, build_as_of(self._partition, record.offsets)
        cause = Cause(cluster, source.topic, self._partition, source.offset, record.now_ms, as_of)
        record.notices.append(
            encode_output(build_stopped_round(cause, text, dry_run=True), record.now_ms)
        )

    # --- rows -----------------------------------------------------------------------------------

    def _restore(self, cluster: str, now_ms: int | None) -> ClusterState | None:
        if self._recall is None:  # the caller then sets the cluster apart
            raise LookupError(f"no rows of cluster {cluster} are kept")
        rows = dict(self._recall(cluster))
        apply_changes(rows, self._rows.get(cluster, {}).values())
        by_kind = group_rows(rows.items()).get(cluster, {})
        return restore(cluster, now_ms, by_kind) if "clusters" in by_kind else None

    def restore_at_start(self, cluster: str, rows: RowsByKind, now_ms: int | None) -> None:
        """Restore a cluster from its rows, or set it apart if a defect of loadstream prevents that.

        Raises:
            DamagedTable: the row of kind `clusters` is missing, or a row cannot be read.
        """
        if "clusters" not in rows:
            kinds = ", ".join(sorted(rows))
            key = row_key(self._partition, cluster, "clusters")
            raise DamagedTable(key, f"missing, while the cluster has rows of kinds {kinds}")
        try:
            self.states[cluster] = restore(cluster, now_ms, rows)
        except DamagedTable:
            raise
        except Exception as error:
            logger.exception("cluster %s cannot be restored", cluster)
            reason = f"its rows cannot be read or written: {type(error).__name__}: {error}"
            self.failures.set_apart(cluster, reason, now_ms or 0)


# --- outputs ------------------------------------------------------------------------------------


def encode_outputs(
    outputs: Sequence[OutputMessage], partitions: int, now_ms: int | None
) -> list[EncodedOutput]:
    """Encode the messages of a cluster; a collect policy becomes one record per partition."""
    encoded = []
    for output in outputs:
        if output.topic == "node-usage":
            cluster = output.fields["cluster"]
            for number in find_policy_numbers(cluster, partitions):
                copy = OutputMessage(output.topic, {**output.fields, "number": number})
                key = node_key(cluster, key_node(number))
                encoded.append(EncodedOutput(copy, _build_record(copy, key, now_ms)))
        else:
            encoded.append(encode_output(output, now_ms))
    return encoded


def encode_output(output: OutputMessage, now_ms: int | None) -> EncodedOutput:
    return EncodedOutput(output, _build_record(output, output.fields["cluster"], now_ms))


def _build_record(output: OutputMessage, key: str, now_ms: int | None) -> OutputRecord:
    return OutputRecord(output.topic, key, encode_fields(output.fields), timestamp_ms=now_ms or 0)
