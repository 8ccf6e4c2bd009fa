"""Verification: make all decisions of a recording again, and compare them byte by byte.

    recorded batches ──▶ inputs ──▶ an empty stage ──▶ outputs and rows ──▶ equal to the recorded ones?

A history whose beginning is gone begins at a checkpoint: the stage is restored from its rows, as a
worker's is, and the journal must go on right there. No decision is given to the stage: it makes all
of them again. The first batch that differs ends the verification, since all that follows rests on
another state. A record that was not applied exactly once is a difference as well. Pure: batches in,
verdict out; held are the stage, its rows and one batch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

import orjson

from schemas.storage.tables import is_of_cluster
from streams.cluster.stage import ClusterStage
from streams.replay.first_difference import Effect, Mismatch, effect, find_culprit, mismatches
from streams.replay.recorded import Beginning, NotOnce, NotReplayable, RecordedBatch, Recording
from streams.stage.checkpoint import Checkpoint
from streams.stage.packing import apply_changes, unpack_rows
from streams.stage.records import DamagedTable, InputRecord, RowChange


@dataclass(frozen=True, slots=True)
class Window:
    """What is compared; everything before it is folded all the same."""

    from_ms: int | None = None
    """First time, by the log's clock after the batch; none: from the first batch on."""
    to_ms: int | None = None
    """Last time; none: to the end of the journal."""
    cluster: str | None = None
    """Only this cluster's rows and outputs, without dead letters and the partition's own row."""


@dataclass(slots=True)
class ReplaySummary:
    """What was compared and found equal."""

    batches: int = 0
    inputs: int = 0
    outputs: int = 0
    rows: int = 0
    foreign: int = 0
    """Records in the journal that are not of it; they were passed over."""
    folded_batches: int = 0
    """Batches that were applied, compared or not."""
    first_batch: int = 0
    """Number of the batch that folding began with."""
    checkpoint_offset: int | None = None
    """Journal offset that the checkpoint reflects which it began at; none: it began with nothing."""
    checkpoint_ms: int | None = None
    """The log's time of the checkpoint; none: there is none, or its clock had not ticked."""
    first_ms: int | None = None
    """The log's time after the first batch compared; none: before its clock ticked first."""
    last_ms: int | None = None
    """The log's time after the last one."""
    outputs_sha256: str = sha256().hexdigest()
    """Of the outputs compared, with topic, key and timestamp, in their order."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first batch that differs."""

    sequence: int
    """Number of the batch."""
    journal_offset: int
    """Offset of the journal record that ends it."""
    now_ms: int | None
    """The log's time after it."""
    problem: str
    """What is wrong, in a sentence."""
    mismatches: tuple[Mismatch, ...] = ()
    """Outputs, dead letters and rows that differ."""
    culprit: InputRecord | None = None
    """The first input whose effect differs; none: no single input of the batch can be found."""


class Verification:
    """Verifies the batches of one partition; `summary` says how far they are equal."""

    def __init__(
        self,
        partition: int,
        partitions: int,
        window: Window | None = None,
        checkpoint: Checkpoint | None = None,
    ) -> None:
        """Begin with nothing, or with what a checkpoint says.

        Raises:
            NotReplayable: rows of the checkpoint cannot be read.
        """
        self.partition = partition
        self._partitions = partitions
        self._window = window or Window()
        self._stage = ClusterStage(partition, partitions, self._recall)
        self._rows: dict[str, bytes] = {}
        """As the journal has them, which is not packed."""
        self._digest = sha256()
        self.summary = ReplaySummary()
        self.beginning = Beginning()
        """Where the recording must begin."""
        self._ended = False
        """What follows is later than the window."""
        if checkpoint is not None:
            self._restore(checkpoint)

    def _restore(self, checkpoint: Checkpoint) -> None:
        place = checkpoint.place
        try:
            stage = ClusterStage.restore(
                self.partition, self._partitions, dict(checkpoint.rows), self._recall
            )
            rows = unpack_rows(checkpoint.rows)
        except DamagedTable as damaged:
            raise NotReplayable(
                f"the checkpoint at journal offset {place.offset} cannot be restored: "
                f"row {damaged.row}: {damaged.problem}"
            ) from damaged
        self._stage, self._rows = stage, rows
        following = {topic: offset + 1 for topic, offset in stage.positions.items()}
        self.beginning = Beginning(place, following)
        self.summary.first_batch = place.sequence + 1
        self.summary.checkpoint_offset, self.summary.checkpoint_ms = place.offset, stage.now_ms

    def _stored(self, cluster: str | None = None) -> dict[str, bytes]:
        """Rows as tables have them; of one cluster alone if it is given."""
        stored: dict[str, bytes] = {}
        apply_changes(
            stored,
            (
                RowChange(key, value)
                for key, value in self._rows.items()
                if cluster is None or is_of_cluster(key, self.partition, cluster)
            ),
        )
        return stored

    def _recall(self, cluster: str) -> dict[str, bytes]:
        return self._stored(cluster)

    def verify(self, recording: Recording) -> Difference | None:
        """Verify a recording, to the end of the window at most; answers with the first difference.

        Raises:
            JournalDamaged: the journal cannot be read, or does not go on right there.
            NotReplayable: an input that was applied is not there any more.
        """
        difference = None
        try:
            for recorded in recording:
                difference = self._take(recorded)
                if difference is not None or self._ended:
                    break
        except NotOnce as broken:
            return Difference(
                broken.sequence,
                broken.journal_offset,
                self._stage.now_ms,
                broken.problem,
                culprit=broken.culprit,
            )
        finally:
            self.summary.foreign = recording.foreign
        return difference

    def _take(self, recorded: RecordedBatch) -> Difference | None:
        """Fold the batch that follows, and compare."""
        batch, applied = recorded.batch, recorded.inputs
        result = effect(self._stage.apply(applied))
        now_ms = self._stage.now_ms
        self.summary.folded_batches += 1
        if self._later(now_ms):
            self._ended = True
            return None
        if self._within(now_ms):
            whole = Effect.of(batch.outputs, batch.rows)
            found = mismatches(self._only(whole), self._only(result))
            if found:
                return self._difference(recorded, found)
            self._count(applied, self._only(result), now_ms)
        for key, value in result.rows.items():
            if value is None:
                self._rows.pop(key, None)
            else:
                self._rows[key] = value
        return None

    # --- what is compared -----------------------------------------------------------------------

    def _later(self, now_ms: int | None) -> bool:
        to_ms = self._window.to_ms
        return to_ms is not None and now_ms is not None and now_ms > to_ms

    def _within(self, now_ms: int | None) -> bool:
        from_ms = self._window.from_ms
        return from_ms is None or (now_ms is not None and now_ms >= from_ms)

    def _only(self, whole: Effect) -> Effect:
        cluster = self._window.cluster
        if cluster is None:
            return whole
        return Effect(
            # Keys are the cluster, or begin with it and a slash.
            [output for output in whole.outputs if output.key.partition("/")[0] == cluster],
            [],
            {
                key: value
                for key, value in whole.rows.items()
                if is_of_cluster(key, self.partition, cluster)
            },
        )

    def _count(self, applied: Sequence[InputRecord], equal: Effect, now_ms: int | None) -> None:
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

    def _difference(self, recorded: RecordedBatch, found: list[Mismatch]) -> Difference:
        """Apply the batch again, input by input, to a stage as it was before."""
        before = ClusterStage.restore(
            self.partition, self._partitions, self._stored(), self._recall
        )
        return Difference(
            recorded.batch.sequence,
            recorded.journal_offset,
            self._stage.now_ms,
            f"{len(found)} outputs and rows differ",
            tuple(found),
            find_culprit(before, self._rows, recorded.inputs, found),
        )
