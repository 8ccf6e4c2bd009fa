"""Replay: fold what the journal says was applied once more, and compare what comes out.

    journal ──▶ batches that count ──▶ their inputs, from the input topics, in the recorded order
                                           │
                                           ▼
            recorded outputs and rows ──▶ equal, byte for byte? ◀── an empty stage, batch after batch

A history whose beginning is gone begins at a checkpoint: the stage is restored from its rows, as a worker's is,
and the journal must go on right there. No decision is given to the stage: it makes all of them again. The first batch that differs ends a replay,
since whatever follows rests on another state. Beyond bytes, every record of an input topic must have been
applied exactly once: one that was passed over or named twice is a difference as well. A history that is
not whole is an error and never equal. Pure: records in, verdict out; held are the stage, its rows and one
batch.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from typing import Protocol

import orjson

from schemas.base import INT64_MAX
from schemas.topics import CLUSTER_INPUTS
from streams.cluster.stage import ClusterStage
from streams.replay.first_difference import Effect, Mismatch, effect, find_culprit, mismatches
from streams.stage import journal
from streams.stage.checkpoint import Checkpoint
from streams.stage.journal_records import Batch
from streams.stage.packing import put, unpacked
from streams.stage.records import DamagedTable, InputRecord, RowChange

#: What to do where a part of the history is gone.
HISTORY_HINT = (
    "A replay needs every record since the journal's first batch or since a checkpoint: retention.ms of "
    "the topics, and min.compaction.lag.ms of a compacted one, say how long there is one."
)


class NotReplayable(RuntimeError):
    """Something that was applied is not there any more: nothing can be said about what it came to."""


class _NotOnce(Exception):
    """A record was applied twice, or never."""

    def __init__(self, problem: str, culprit: InputRecord | None) -> None:
        super().__init__(problem)
        self.problem = problem
        self.culprit = culprit


class Inputs(Protocol):
    """The input topics of one partition, each read once from its beginning on, or from where a checkpoint is."""

    def through(self, topic: str, last_offset: int) -> Iterable[InputRecord]:
        """Records of a topic that were not given before, up to an offset that belongs to them.

        Offsets that hold nothing are passed over. Ends early where the topic ends.
        """
        ...


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
class Summary:
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
    """The first input whose effect differs; none: no input of the batch can be told apart."""


class Replay:
    """Folds the batches of one partition; `summary` says how far they are equal."""

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
        self._rows: dict[tuple[str, str], bytes] = {}
        """As the journal has them, which is not packed."""
        self._following: dict[str, int] = {}
        """Least offset of each topic that has not been applied."""
        self._digest = sha256()
        self.summary = Summary()
        self.place = journal.Place()
        """Where in the journal folding begins: with the record after it."""
        self.ended = False
        """What follows is later than the window."""
        if checkpoint is not None:
            self._restore(checkpoint)

    def _restore(self, checkpoint: Checkpoint) -> None:
        place = checkpoint.place
        try:
            stage = ClusterStage.restored(
                self.partition, self._partitions, checkpoint.rows, self._recall
            )
            rows = unpacked(checkpoint.rows)
        except DamagedTable as damaged:
            raise NotReplayable(
                f"the checkpoint at journal offset {place.offset} cannot be restored: table {damaged.table}, "
                f"row {damaged.row}: {damaged.problem}"
            ) from damaged
        self._stage, self._rows, self.place = stage, rows, place
        self._following = {topic: offset + 1 for topic, offset in stage.positions.items()}
        self.summary.first_batch = place.sequence + 1
        self.summary.checkpoint_offset, self.summary.checkpoint_ms = place.offset, stage.now_ms

    def _stored(self, prefix: str = "") -> list[tuple[str, str, bytes]]:
        """Rows as tables have them; of one cluster alone if a prefix of keys is given."""
        stored: dict[tuple[str, str], bytes] = {}
        below = f"{prefix}/"
        put(
            stored,
            (
                RowChange(table, key, value)
                for (table, key), value in self._rows.items()
                if not prefix or key == prefix or key.startswith(below)
            ),
        )
        return [(table, key, value) for (table, key), value in stored.items()]

    def _recall(self, cluster: str) -> list[tuple[str, str, bytes]]:
        return self._stored(f"{self.partition}/{cluster}")

    @property
    def following(self) -> Mapping[str, int]:
        """Least offset of each input topic that has not been applied; 0 where none is named."""
        return self._following

    def take(self, batch: Batch, offset: int, inputs: Inputs) -> Difference | None:
        """Fold the batch that follows; `offset` is that of the journal record which ends it.

        Raises:
            NotReplayable: an input that the batch applied is not there any more.
        """
        try:
            applied = list(self._applied(batch, inputs))
        except _NotOnce as broken:
            now_ms = self._stage.now_ms
            return Difference(batch.sequence, offset, now_ms, broken.problem, (), broken.culprit)
        result = effect(self._stage.apply(applied))
        now_ms = self._stage.now_ms
        self.summary.folded_batches += 1
        if self._later(now_ms):
            self.ended = True
            return None
        if self._within(now_ms):
            recorded = Effect.of(batch.outputs, batch.rows)
            found = mismatches(self._only(recorded), self._only(result))
            if found:
                return self._difference(batch, offset, applied, found)
            self._count(applied, self._only(result), now_ms)
        for (table, key), value in result.rows.items():
            if value is None:
                self._rows.pop((table, key), None)
            else:
                self._rows[table, key] = value
        return None

    # --- inputs ---------------------------------------------------------------------------------

    def _applied(self, batch: Batch, inputs: Inputs) -> Iterator[InputRecord]:
        """What the batch applied, in its order; every record of a topic comes exactly once."""
        for run in batch.inputs:
            topic, expected = run.topic, run.first_offset
            if topic not in CLUSTER_INPUTS:
                raise NotReplayable(
                    f"batch {batch.sequence} applied records of topic {topic}, which this version does "
                    "not read; replay with the version that has written the journal"
                )
            known = self._stage.topic_ids.get(topic, run.topic_id)
            if run.topic_id is not None and known != run.topic_id:
                self._following.pop(topic, None)  # the topic was made again
            if expected < self._following.get(topic, 0):
                raise _NotOnce(f"{topic} offset {expected} was applied before", None)
            for record in inputs.through(topic, run.last_offset):
                if record.offset < expected:
                    raise _NotOnce(f"{topic} offset {record.offset} was never applied", record)
                if record.offset > expected:
                    raise self._gone(batch, topic, expected, record)
                first = expected == run.first_offset
                if run.refused_at_ms is not None or (first and run.topic_id is not None):
                    topic_id = run.topic_id if first else None
                    record = replace(record, refused_at_ms=run.refused_at_ms, topic_id=topic_id)
                yield record
                expected += 1
            if expected <= run.last_offset:
                rest = iter(inputs.through(topic, INT64_MAX))
                raise self._gone(batch, topic, expected, next(rest, None))
            self._following[topic] = expected

    def _gone(
        self, batch: Batch, topic: str, first: int, there: InputRecord | None
    ) -> NotReplayable:
        """What is missing, up to the record that is there again."""
        if there is None:
            gone = f"the offsets from {first} on are gone"
        elif there.offset == first + 1:
            gone = f"offset {first} is gone"
        else:
            gone = f"the offsets {first} to {there.offset - 1} are gone"
        return NotReplayable(
            f"topic {topic}, partition {self.partition}: {gone}, and batch {batch.sequence} has "
            f"applied {first}. {HISTORY_HINT}"
        )

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
        own = f"{self.partition}/{cluster}"
        return Effect(
            # Keys are the cluster, or begin with it and a slash.
            [output for output in whole.outputs if output.key.partition("/")[0] == cluster],
            [],
            {
                (table, key): value
                for (table, key), value in whole.rows.items()
                if table != "partitions" and (key == own or key.startswith(f"{own}/"))
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

    def _difference(
        self,
        batch: Batch,
        offset: int,
        applied: Sequence[InputRecord],
        found: list[Mismatch],
    ) -> Difference:
        """Apply the batch again, input by input, to a stage as it was before."""
        before = ClusterStage.restored(
            self.partition, self._partitions, self._stored(), self._recall
        )
        return Difference(
            batch.sequence,
            offset,
            self._stage.now_ms,
            f"{len(found)} outputs and rows differ",
            tuple(found),
            find_culprit(before, self._rows, applied, found),
        )


def follow(
    entries: Iterable[tuple[int, bytes | None]], inputs: Inputs, fold: Replay
) -> Difference | None:
    """Fold a journal from where the fold begins; answers with the first difference.

    Args:
        entries: offset and value of the journal's records after `fold.place`, in order.
        inputs: what the journal speaks of.
        fold: one that has folded nothing yet; its summary says afterwards what was compared.

    Raises:
        JournalDamaged: the journal cannot be read, or does not go on right there.
        NotReplayable: an input that was applied is not there any more.
    """
    reader = journal.Reader(fold.place, fold.partition)
    for batch, offset in _batches(entries, reader):
        fold.summary.foreign += len(reader.take_foreign())
        difference = fold.take(batch, offset, inputs)
        if difference is not None:
            return difference
        if fold.ended:
            break
    return None


def _batches(
    entries: Iterable[tuple[int, bytes | None]], reader: journal.Reader
) -> Iterator[tuple[Batch, int]]:
    for offset, value in entries:
        batch = reader.take(offset, value)
        if batch is not None:
            yield batch, offset
