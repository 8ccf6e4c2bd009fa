"""Applies the batches of a recording again, and compares the results byte by byte.

    recorded batches ──▶ inputs ──▶ new stage ──▶ outputs and rows ──▶ equal to the recorded ones?

If the beginning of the history is missing, the stage is restored from a checkpoint. The stage makes all
decisions again. The verification ends at the first batch that differs, because later batches depend on
the state after that batch. A record that was not applied exactly once is a difference, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import orjson

from schemas.storage.tables import is_of_cluster
from streams.cluster.stage import ClusterStage
from streams.replay.first_difference import Effect, Mismatch, find_culprit, find_mismatches
from streams.replay.recorded import (
    NotAppliedOnce,
    NotReplayable,
    RecordedBatch,
    Recording,
    StartPosition,
)
from streams.stage.checkpoint import Checkpoint
from streams.stage.packing import apply_changes, unpack_rows
from streams.stage.records import DamagedTable, InputRecord, RowChange


@dataclass(frozen=True, slots=True)
class Window:
    """The results to compare; earlier batches are only applied."""

    from_ms: int | None = None
    """First log time after a batch; None: from the first batch on."""
    to_ms: int | None = None
    """Last log time; None: to the end of the journal."""
    cluster: str | None = None
    """Compare only rows and outputs of this cluster, without dead letters; None: everything."""


@dataclass(slots=True)
class ReplaySummary:
    """Counts of compared results, which are all equal."""

    batches: int = 0
    inputs: int = 0
    outputs: int = 0
    rows: int = 0
    foreign: int = 0
    """Skipped records that do not belong to the journal."""
    folded_batches: int = 0
    """Applied batches, compared or not."""
    first_batch: int = 0
    """Number of the first applied batch."""
    checkpoint_offset: int | None = None
    """Journal offset of the checkpoint at the start; None: no checkpoint."""
    checkpoint_ms: int | None = None
    """Log time of the checkpoint; None: no checkpoint, or no tick before it."""
    first_ms: int | None = None
    """Log time after the first compared batch; None: before the first tick."""
    last_ms: int | None = None
    """Log time after the last compared batch."""
    outputs_sha256: str = sha256().hexdigest()
    """SHA-256 of the compared outputs with topic, key and timestamp."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first batch that differs."""

    sequence: int
    """Number of the batch."""
    journal_offset: int
    """Offset of the last journal record of the batch."""
    now_ms: int | None
    """Log time after the batch."""
    problem: str
    """The difference in a sentence."""
    mismatches: tuple[Mismatch, ...] = ()
    culprit: InputRecord | None = None
    """The first input with a different effect; None: it was not found."""


class Verification:
    """Verifies the batches of one partition."""

    def __init__(
        self,
        partition: int,
        partitions: int,
        window: Window | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """Start with an empty stage, or at a checkpoint.

        Raises:
            NotReplayable: rows of the checkpoint cannot be read.
        """
        self.partition = partition
        self._partitions = partitions
        self._window = window or Window()
        self._stage = ClusterStage(partition, partitions, self._pack_rows)
        self._rows: dict[str, bytes] = {}
        """Rows in the form of the journal, not packed."""
        self._digest = sha256()
        self.summary = ReplaySummary()
        self.start = StartPosition()
        """Where the recording must start."""
        self._is_after_window = False
        if checkpoint is not None:
            self._restore(checkpoint)

    def _restore(self, checkpoint: Checkpoint) -> None:
        position = checkpoint.position
        try:
            stage = ClusterStage.restore(
                self.partition, self._partitions, dict(checkpoint.rows), self._pack_rows
            )
            rows = unpack_rows(checkpoint.rows)
        except DamagedTable as damaged:
            raise NotReplayable(
                f"the checkpoint at journal offset {position.offset} cannot be restored: "
                f"row {damaged.row}: {damaged.problem}"
            ) from damaged
        self._stage, self._rows = stage, rows
        next_offsets = {topic: offset + 1 for topic, offset in stage.positions.items()}
        self.start = StartPosition(position, next_offsets)
        self.summary.first_batch = position.sequence + 1
        self.summary.checkpoint_offset, self.summary.checkpoint_ms = position.offset, stage.now_ms

    def _pack_rows(self, cluster: str | None = None) -> dict[str, bytes]:
        """Return the table rows of one cluster, or of all clusters."""
        packed: dict[str, bytes] = {}
        apply_changes(
            packed,
            (
                RowChange(key, value)
                for key, value in self._rows.items()
                if cluster is None or is_of_cluster(key, self.partition, cluster)
            ),
        )
        return packed

    def verify(self, recording: Recording) -> Difference | None:
        """Verify a recording up to the end of the window; return the first difference.

        Raises:
            JournalDamaged: the journal cannot be read, or batches are missing.
            NotReplayable: an applied record is missing.
        """
        difference = None
        try:
            for recorded in recording:
                difference = self._verify_batch(recorded)
                if difference is not None or self._is_after_window:
                    break
        except NotAppliedOnce as error:
            return Difference(
                error.sequence,
                error.journal_offset,
                self._stage.now_ms,
                error.problem,
                culprit=error.culprit,
            )
        finally:
            self.summary.foreign = recording.foreign
        return difference

    def _verify_batch(self, recorded: RecordedBatch) -> Difference | None:
        batch, applied = recorded.batch, recorded.inputs
        result = self._stage.apply(applied)
        replayed = Effect.of(result.published, result.rows)
        now_ms, window = self._stage.now_ms, self._window
        self.summary.folded_batches += 1
        if window.to_ms is not None and now_ms is not None and now_ms > window.to_ms:
            self._is_after_window = True
            return None
        if window.from_ms is None or (now_ms is not None and now_ms >= window.from_ms):
            compared = self._filter(replayed)
            mismatches = find_mismatches(
                self._filter(Effect.of(batch.outputs, batch.rows)), compared
            )
            if mismatches:
                return self._build_difference(recorded, mismatches)
            self._count_equal(applied, compared, now_ms)
        for key, value in replayed.rows.items():
            if value is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = value
        return None

    def _filter(self, effect: Effect) -> Effect:
        cluster = self._window.cluster
        if cluster is None:
            return effect
        return Effect(
            # A key is a cluster, or starts with a cluster and a slash.
            [output for output in effect.outputs if output.key.partition("/")[0] == cluster],
            [],
            {
                key: value
                for key, value in effect.rows.items()
                if is_of_cluster(key, self.partition, cluster)
            },
        )

    def _count_equal(
        self, applied: Sequence[InputRecord], equal: Effect, now_ms: int | None
    ) -> None:
        summary = self.summary
        summary.batches += 1
        summary.inputs += len(applied)
        summary.outputs += len(equal.outputs) + len(equal.dead_letters)
        summary.rows += len(equal.rows)
        summary.first_ms = now_ms if summary.first_ms is None else summary.first_ms
        summary.last_ms = now_ms
        for output in (*equal.outputs, *equal.dead_letters):
            head = [output.topic, output.key, output.timestamp_ms, len(output.value)]
            self._digest.update(orjson.dumps(head))
            self._digest.update(output.value)
        summary.outputs_sha256 = self._digest.hexdigest()

    def _build_difference(self, recorded: RecordedBatch, mismatches: list[Mismatch]) -> Difference:
        before = ClusterStage.restore(
            self.partition, self._partitions, self._pack_rows(), self._pack_rows
        )
        return Difference(
            recorded.batch.sequence,
            recorded.journal_offset,
            self._stage.now_ms,
            f"{len(mismatches)} outputs and rows differ",
            tuple(mismatches),
            find_culprit(before, self._rows, recorded.inputs, mismatches),
        )
