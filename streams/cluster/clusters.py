"""The clusters of one partition, applied one by one: a defect of loadstream affects one of them.

If applying a record, encoding its results or writing its rows raises an exception, the cluster's
state in memory is not used any more. The state is put together again from its rows as they were
before the batch. Then the batch's records are applied to it again without the one that failed,
which becomes a dead letter. The result does not depend on where batches end or when a worker starts
again. `failures` says when a cluster is set apart instead. A row that cannot be written is noticed
at the end of its batch, unless a later record of the same batch has replaced it.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Sequence

from schemas.clock import ClockTick
from schemas.codec import encode
from schemas.decisions import AsOf
from schemas.refusals import Refusal
from schemas.rows import HeldPod
from streams.cluster import failures
from streams.cluster.applied import Applied
from streams.cluster.clock_reset import moved_rows, set_back
from streams.cluster.failures import Failures, apart_text, back_record, set_apart_record
from streams.cluster.spoken import answered, spoken
from streams.cluster.state import ClusterState, Position
from streams.cluster.stored import Parts, Row, by_cluster, restored
from streams.cluster.tables import ROWS, all_rows, begin_rows, changed_rows, last_rows, settle
from streams.inventory.cause import Cause
from streams.stage.packing import put
from streams.stage.records import DamagedTable, RowChange

logger = logging.getLogger(__name__)

#: The rows of a cluster as all results that were handed out leave them.
Recall = Callable[[str], Iterable[Row]]


class _NotRestorable(Exception):
    """A cluster cannot be put together from its rows."""


def no_rows(cluster: str) -> Iterable[Row]:
    """For a stage whose rows are not kept: a cluster that fails is set apart at once."""
    raise LookupError(f"the rows of cluster {cluster} are not at hand")


class Clusters:
    """States of clusters, and the batch that is being applied to them."""

    def __init__(
        self, partition: int, partitions: int, recall: Recall, version: str, *, has_tables: bool
    ) -> None:
        self.partition = partition
        self._partitions = partitions
        self._has_tables = has_tables
        self.states: dict[str, ClusterState] = {}
        self.failures = Failures(version)
        self.positions: dict[str, int] = {}
        """Offset applied last of each input topic of which anything was applied."""
        self.now_ms: int | None = None
        """The log's time; none: its clock has not ticked."""
        self._recall = recall
        self._changed: dict[str, None] = {}
        self.begin()

    def begin(self) -> None:
        """A batch begins."""
        self.done: list[Applied] = []
        """Its records so far."""
        self._start = self.now_ms, dict(self.positions)
        self._written: dict[str, dict[tuple[str, str], RowChange]] = {}
        """Rows of clusters that this batch has forgotten, or applied again one by one."""

    # --- records ----------------------------------------------------------------------------------

    def tick(self, each: Applied, now_ms: int) -> None:
        """Let every cluster know what time it is."""
        self.now_ms = now_ms
        if each.set_back_from_ms is not None:
            self.failures.set_back(each.set_back_from_ms, now_ms)
        self.failures.tidy(now_ms)
        for cluster in self.failures.all_apart():
            self._tick_apart(cluster, each)
        for cluster in sorted(self.states):
            self.apply(cluster, each)

    def apply(self, cluster: str, each: Applied) -> None:
        """Let one cluster apply a record; a defect of ours must not stop the others."""
        record = each.record
        position = Position(record.topic, self.partition, record.offset, self.positions)
        try:
            self._step(cluster, each, position)
        except Exception as error:
            self._contain(cluster, each, error)

    def _step(self, cluster: str, each: Applied, position: Position) -> None:
        """Apply a record to a cluster, up to what is published of it."""
        self._changed[cluster] = None
        state = self.states.get(cluster)
        new = state is None
        if state is None:
            state = ClusterState(cluster)
            if self.now_ms is not None:
                state.advance(self.now_ms)
        elif each.set_back_from_ms is not None:
            state = self._set_back(state, each.set_back_from_ms, each.message.now_ms)
        answer = state.apply(each.message, position)
        if isinstance(answer, Refusal):
            each.refused[cluster] = answer
        else:
            each.say(
                cluster,
                [
                    ready
                    for said in answer
                    for ready in answered(said, self._partitions, state, self.now_ms)
                ],
            )
        if not state.empty:
            self.states[cluster] = state
        elif not new and isinstance(each.message, ClockTick):
            self._forget(state)

    def _set_back(self, state: ClusterState, was_ms: int, now_ms: int) -> ClusterState:
        """A cluster as it would be if it had never been so late; see `clock_reset`."""
        cluster, prefix = state.cluster, f"{self.partition}/{state.cluster}"
        if not self._has_tables:
            begin_rows(state)
        self._write(cluster, changed_rows(state, prefix))
        before = list(all_rows(state, prefix))
        after = list(set_back(before, ROWS, {"reserved_pods": HeldPod}, was_ms, now_ms))
        written = self._written[cluster]
        self._write(
            cluster,
            (
                new
                for old, new in zip(before, after, strict=True)
                if new is not old or (new.table, new.key) in written
            ),
        )
        stored: dict[tuple[str, str], bytes] = {}
        put(stored, after)
        rows = ((table, key, value) for (table, key), value in stored.items())
        state = self.states[cluster] = restored(cluster, now_ms, by_cluster(rows)[cluster])
        return state

    def _forget(self, state: ClusterState) -> None:
        """Nothing is known of a cluster now, so it takes no place and no time."""
        del self.states[state.cluster]
        self._write(state.cluster, last_rows(state, f"{self.partition}/{state.cluster}"))

    # --- defects ----------------------------------------------------------------------------------

    def _contain(self, cluster: str, each: Applied, error: Exception) -> None:
        """A record has made a cluster fail: let the cluster be as if it had not come."""
        failed: tuple[Applied, Exception] | None = (each, error)
        while failed is not None:
            each, error = failed
            reason = self._failed(cluster, each, error)
            too_often = self.failures.note(cluster, reason, self.now_ms or 0)
            try:
                failed = self._redo(cluster, each if too_often else None)
            except _NotRestorable as lost:
                self._set_apart(cluster, each, f"{reason}; {lost}", self.done)
                return
            if failed is None and too_often:
                after = self.done[self.done.index(each) + 1 :]
                self._set_apart(cluster, each, reason, after)

    def _failed(self, cluster: str, each: Applied, error: Exception) -> str:
        record = each.record
        place = f"{record.topic} offset {record.offset}"
        logger.error("cluster %s, %s", cluster, place, exc_info=error)
        text = f"{type(error).__name__}: {error}"
        each.fail(cluster, Refusal("internal", text))
        return f"{place}: {text}"

    def _redo(self, cluster: str, until: Applied | None) -> tuple[Applied, Exception] | None:
        """Put a cluster together again, and apply the batch's records up to here, each with its
        rows.

        Answers with the first one that fails now; what failed before is left out.

        Args:
            cluster: which one.
            until: the record to stop at; None: at the newest.

        Raises:
            _NotRestorable: its rows do not make a cluster.
        """
        now_ms, (start_ms, offsets) = self.now_ms, self._start
        offsets = dict(offsets)
        self._drop(cluster)
        try:
            self.now_ms = start_ms
            self._restore(cluster)
            for each in self.done:
                record = each.record
                offsets[record.topic] = record.offset
                tick = isinstance(each.message, ClockTick)
                if tick:
                    self.now_ms = each.message.now_ms
                if each is until:
                    break
                if not each.concerns(cluster) or (tick and cluster not in self.states):
                    continue
                try:
                    if cluster not in each.failed:
                        position = Position(
                            record.topic, self.partition, record.offset, dict(offsets)
                        )
                        self._step(cluster, each, position)
                    elif tick:
                        self._skip_tick(cluster, each)
                    self._write(cluster, self._changes(cluster))
                except Exception as error:
                    return each, error
        finally:
            self.now_ms = now_ms
        return None

    def _redone(self, cluster: str, until: Applied | None, newest: Applied) -> bool:
        """Redo the batch, and contain what fails now; answers whether nothing does."""
        try:
            failed = self._redo(cluster, until)
        except _NotRestorable as lost:
            self._set_apart(cluster, newest, str(lost), self.done)
            return False
        if failed is not None:
            self._contain(cluster, *failed)
        return failed is None

    def _drop(self, cluster: str) -> None:
        """Nothing of what the cluster did in this batch counts."""
        self.states.pop(cluster, None)
        self._written.pop(cluster, None)
        for each in self.done:
            each.take_back(cluster)

    def _skip_tick(self, cluster: str, each: Applied) -> None:
        """Set the time of a cluster that this tick has made fail, without its decisions."""
        state, now_ms = self.states[cluster], each.message.now_ms
        if each.set_back_from_ms is not None:
            state = self._set_back(state, each.set_back_from_ms, now_ms)
        state.skip_to(now_ms)

    def _tick_apart(self, cluster: str, each: Applied) -> None:
        """A tick for a cluster that is set apart: if time is set back, its rows are, too."""
        each.leave_out(cluster)
        if each.set_back_from_ms is None:
            return
        try:
            rows = {(table, key): value for table, key, value in self._recalled(cluster)}
            put(rows, self._written.get(cluster, {}).values())
            self._write(cluster, moved_rows(rows, ROWS, each.set_back_from_ms, each.message.now_ms))
        except Exception:
            # Rows that cannot be read do not make a cluster either; it stays apart.
            logger.exception(
                "the times of cluster %s, which is set apart, are not set back", cluster
            )

    def _restore(self, cluster: str) -> None:
        """Put a cluster together from its rows as they were before the batch, if it had any."""
        try:
            parts = by_cluster(self._recalled(cluster)).get(cluster)
            if parts is not None and parts["clusters"]:
                self.states[cluster] = restored(cluster, self.now_ms, parts)
        except Exception as error:
            raise _NotRestorable(_not_restored(cluster, error)) from error

    def _recalled(self, cluster: str) -> Iterator[Row]:
        """Its rows, without what is noted of its failures: that is no part of it."""
        return (row for row in self._recall(cluster) if row[0] in ROWS)

    def _set_apart(
        self, cluster: str, each: Applied, reason: str, missed: Sequence[Applied]
    ) -> None:
        """The cluster's state stays as its rows have it.

        What came in this batch beyond them is missed.
        """
        if missed is self.done:
            self._drop(cluster)
        self.states.pop(cluster, None)
        self.failures.set_apart(cluster, reason, self.now_ms or 0)
        for other in missed:
            if isinstance(other.message, ClockTick):
                self._tick_apart(cluster, other)
            elif other.concerns(cluster) and cluster not in other.failed:
                other.fail(cluster, self.failures.miss(cluster, other.record.topic))
        row = self.failures.rows[cluster]
        logger.error("%s", apart_text(row))
        if self.now_ms is not None:
            note = set_apart_record(row, self._cause(cluster, each))
            each.notes.append(spoken(note, self.now_ms))

    def come_back(self, cluster: str, each: Applied) -> None:
        """A policy record comes for a cluster that is set apart: try it again."""
        if not self._redone(cluster, each, each):
            return
        row = self.failures.come_back(cluster)
        if self.now_ms is not None:
            said = back_record(row, self._cause(cluster, each))
            each.notes.append(spoken(said, self.now_ms))
        self.apply(cluster, each)

    def _cause(self, cluster: str, each: Applied) -> Cause:
        as_of = AsOf(
            partition=self.partition, offsets=dict(self.positions), policy_digest="default"
        )
        record = each.record
        now_ms = self.now_ms or 0
        return Cause(cluster, record.topic, self.partition, record.offset, now_ms, as_of)

    # --- rows -----------------------------------------------------------------------------------

    def changed_rows(self) -> Iterator[RowChange]:
        """Rows that the batch has changed."""
        for cluster in list(self._changed):
            try:
                self._write(cluster, self._changes(cluster))
            except Exception:
                self._find_unwritable(cluster)
        self._changed.clear()
        for cluster in self._written:
            yield from self._written[cluster].values()
        for cluster, failed in self.failures.changed_rows():
            value = None if failed is None else encode(failed)
            yield RowChange(failures.TABLE, f"{self.partition}/{cluster}", value)

    def settle(self) -> None:
        """Where there are no tables: what the batch has changed is not written."""
        for cluster in self._changed:
            state = self.states.get(cluster)
            if state is not None:
                settle(state)
        self._changed.clear()
        self._written.clear()
        self.failures.changed.clear()

    def _find_unwritable(self, cluster: str) -> None:
        """Rows of a cluster cannot be written: find the record that is to blame."""
        last = next(each for each in reversed(self.done) if each.concerns(cluster))
        self._redone(cluster, None, last)

    def _changes(self, cluster: str) -> list[RowChange]:
        state = self.states.get(cluster)
        return [] if state is None else list(changed_rows(state, f"{self.partition}/{cluster}"))

    def _write(self, cluster: str, rows: Iterable[RowChange]) -> None:
        written = self._written.setdefault(cluster, {})
        for row in rows:
            written[row.table, row.key] = row

    def take(self, cluster: str, parts: Parts) -> None:
        if not parts["clusters"]:
            named = ", ".join(sorted(table for table, found in parts.items() if found))
            key = f"{self.partition}/{cluster}"
            raise DamagedTable("clusters", key, f"missing, while {named} have rows of it")
        try:
            self.states[cluster] = restored(cluster, self.now_ms, parts)
        except DamagedTable:
            raise
        except Exception as error:
            self.failures.set_apart(cluster, _not_restored(cluster, error), self.now_ms or 0)


def _not_restored(cluster: str, error: Exception) -> str:
    """Log the error that is being handled, and say in a sentence what it means."""
    logger.exception("cluster %s cannot be put together from its rows", cluster)
    return f"it cannot be put together from its rows: {type(error).__name__}: {error}"
