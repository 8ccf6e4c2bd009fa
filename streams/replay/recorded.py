"""Iterates over the batches of a journal, with their inputs.

    journal ──▶ batches ──▶ their inputs, read from the input topics in the recorded order

Every record of an input topic must have been applied exactly once; otherwise `NotAppliedOnce` is raised. An
incomplete history raises `NotReplayable`. One batch is in memory at a time.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from schemas.base.message import INT64_MAX
from schemas.base.refusals import Refusal
from schemas.topics.catalog import CLUSTER_INPUTS
from streams.stage import journal
from streams.stage.records import InputRecord

#: End of an error about missing records.
HISTORY_HINT = (
    "A replay needs all records since the journal's first batch or since a checkpoint; the topics' settings "
    "retention.ms and min.compaction.lag.ms determine how long records are kept."
)


class NotReplayable(RuntimeError):
    """A part of the history is missing."""


class NotAppliedOnce(Exception):
    """A record was applied twice, or never."""

    def __init__(
        self, sequence: int, journal_offset: int, problem: str, culprit: InputRecord | None = None
    ) -> None:
        """`culprit` is a record that was never applied; None: a record was applied twice."""
        super().__init__(problem)
        self.sequence = sequence
        self.journal_offset = journal_offset
        self.problem = problem
        self.culprit = culprit


class Inputs(Protocol):
    """The input topics of one partition, each read once."""

    def read_through(self, topic: str, last_offset: int) -> Iterable[InputRecord]:
        """Yield the next records of a topic, up to and including an offset.

        Offsets without a record are skipped. The iteration ends early at the end of the topic.
        """
        ...


@dataclass(frozen=True, slots=True)
class StartPosition:
    """The start of a recording: the first batch, or a checkpoint."""

    position: journal.JournalPosition = field(default_factory=journal.JournalPosition)
    """Position in the journal, before the first record to read."""
    next_offsets: Mapping[str, int] = field(default_factory=dict)
    """First offset to read of each input topic; default: 0."""


@dataclass(frozen=True, slots=True)
class RecordedBatch:
    """A batch of the journal, with its inputs."""

    batch: journal.JournalBatch
    journal_offset: int
    """Offset of the last journal record of the batch."""
    inputs: tuple[InputRecord, ...]
    """The applied records, in order."""


class Recording:
    """Iterates over the recorded batches of one partition."""

    def __init__(
        self,
        partition: int,
        entries: Iterable[tuple[int, bytes | None]],
        inputs: Inputs,
        start: StartPosition | None = None,
    ) -> None:
        """Read the batches after `start`, or all batches.

        Args:
            entries: offset and value of the journal's records after `start.position`, in order.
            inputs: records of the input topics from `start.next_offsets` on.
            start: a checkpoint.
        """
        start = start or StartPosition()
        self._partition = partition
        self._entries = entries
        self._inputs = inputs
        self._reader = journal.JournalReader(start.position, partition)
        self._next_offsets = dict(start.next_offsets)
        self.foreign = 0
        """Number of skipped records that do not belong to the journal."""

    def __iter__(self) -> Iterator[RecordedBatch]:
        """Yield the batches.

        Raises:
            JournalDamaged: the journal cannot be read, or batches are missing.
            NotAppliedOnce: a record was applied twice, or never.
            NotReplayable: an applied record is missing.
        """
        for offset, value in self._entries:
            batch = self._reader.feed(offset, value)
            if isinstance(batch, Refusal):
                self.foreign += 1
            elif batch is not None:
                yield RecordedBatch(batch, offset, tuple(self._read_inputs(batch, offset)))

    def _read_inputs(self, batch: journal.JournalBatch, offset: int) -> Iterator[InputRecord]:
        for run in batch.inputs:
            topic, expected = run.topic, run.first_offset
            if topic not in CLUSTER_INPUTS:
                raise NotReplayable(
                    f"batch {batch.sequence} applied records of topic {topic}, which this version does "
                    "not read; replay the journal with the version that wrote it"
                )
            if expected < self._next_offsets.get(topic, 0):
                problem = f"{topic} offset {expected} was applied before"
                raise NotAppliedOnce(batch.sequence, offset, problem)
            for record in self._inputs.read_through(topic, run.last_offset):
                if record.offset < expected:
                    problem = f"{topic} offset {record.offset} was never applied"
                    raise NotAppliedOnce(batch.sequence, offset, problem, record)
                if record.offset > expected:
                    raise self._build_missing_error(batch, topic, expected, record)
                if run.refused_at_ms is not None:
                    record = replace(record, refused_at_ms=run.refused_at_ms)
                yield record
                expected += 1
            if expected <= run.last_offset:
                later_records = iter(self._inputs.read_through(topic, INT64_MAX))
                raise self._build_missing_error(batch, topic, expected, next(later_records, None))
            self._next_offsets[topic] = expected

    def _build_missing_error(
        self,
        batch: journal.JournalBatch,
        topic: str,
        expected: int,
        next_record: InputRecord | None,
    ) -> NotReplayable:
        """Return an error about missing records up to `next_record`, or to the end of the topic."""
        if next_record is None:
            missing = f"the offsets from {expected} on are missing"
        elif next_record.offset == expected + 1:
            missing = f"offset {expected} is missing"
        else:
            missing = f"the offsets {expected} to {next_record.offset - 1} are missing"
        return NotReplayable(
            f"topic {topic}, partition {self._partition}: {missing}, but batch {batch.sequence} has "
            f"applied offset {expected}. {HISTORY_HINT}"
        )
