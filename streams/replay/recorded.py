"""Iterates over the valid batches of a journal, with the inputs that they applied.

    journal ──▶ valid batches ──▶ their inputs, read from the input topics in the recorded order

Every record of an input topic must have been applied exactly once; otherwise `NotAppliedOnce` is raised. An
incomplete history raises `NotReplayable`. One batch is in memory at a time.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from schemas.base.message import INT64_MAX
from schemas.topics.catalog import CLUSTER_INPUTS
from streams.stage import journal
from streams.stage.journal_records import JournalBatch
from streams.stage.records import InputRecord

#: Explains why a part of the history is missing.
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

    def through(self, topic: str, last_offset: int) -> Iterable[InputRecord]:
        """Yield the records of a topic after the previous call, up to and including an offset.

        Offsets without a record are skipped. Ends early at the end of the topic.
        """
        ...


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where a recording begins: with the first batch, or after a checkpoint."""

    position: journal.JournalPosition = field(default_factory=journal.JournalPosition)
    """Position in the journal; the next record is the first one to read."""
    following: Mapping[str, int] = field(default_factory=dict)
    """Next offset of each input topic; default: 0."""


@dataclass(frozen=True, slots=True)
class RecordedBatch:
    """A batch of the journal, with its inputs."""

    batch: JournalBatch
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
        beginning: Beginning | None = None,
    ) -> None:
        """Args:
        partition: number of the partition.
        entries: offset and value of the journal's records after `beginning.position`, in order.
        inputs: records of the input topics from `beginning.following` on.
        beginning: default: the first batch.
        """
        beginning = beginning or Beginning()
        self._partition = partition
        self._entries = iter(entries)
        self._inputs = inputs
        self._reader = journal.JournalReader(beginning.position, partition)
        self._following = dict(beginning.following)
        self.foreign = 0
        """Number of skipped records that do not belong to the journal."""

    def __iter__(self) -> Iterator[RecordedBatch]:
        return self

    def __next__(self) -> RecordedBatch:
        """Return the next batch.

        Raises:
            JournalDamaged: the journal cannot be read, or batches are missing.
            NotAppliedOnce: a record was applied twice, or never.
            NotReplayable: an applied record is missing.
        """
        for offset, value in self._entries:
            batch = self._reader.feed(offset, value)
            self.foreign += len(self._reader.take_foreign())
            if batch is not None:
                return RecordedBatch(batch, offset, tuple(self._applied(batch, offset)))
        raise StopIteration

    def _applied(self, batch: JournalBatch, offset: int) -> Iterator[InputRecord]:
        """Yield the records that the batch applied, in order."""
        for run in batch.inputs:
            topic, expected = run.topic, run.first_offset
            if topic not in CLUSTER_INPUTS:
                raise NotReplayable(
                    f"batch {batch.sequence} applied records of topic {topic}, which this version does "
                    "not read; replay it with the version that wrote the journal"
                )
            if expected < self._following.get(topic, 0):
                problem = f"{topic} offset {expected} was applied before"
                raise NotAppliedOnce(batch.sequence, offset, problem)
            for record in self._inputs.through(topic, run.last_offset):
                if record.offset < expected:
                    problem = f"{topic} offset {record.offset} was never applied"
                    raise NotAppliedOnce(batch.sequence, offset, problem, record)
                if record.offset > expected:
                    raise self._missing(batch, topic, expected, record)
                if run.refused_at_ms is not None:
                    record = replace(record, refused_at_ms=run.refused_at_ms)
                yield record
                expected += 1
            if expected <= run.last_offset:
                following = iter(self._inputs.through(topic, INT64_MAX))
                raise self._missing(batch, topic, expected, next(following, None))
            self._following[topic] = expected

    def _missing(
        self, batch: JournalBatch, topic: str, expected: int, following: InputRecord | None
    ) -> NotReplayable:
        """Return an error about missing records up to `following`, or to the end of the topic."""
        if following is None:
            missing = f"the offsets from {expected} on are missing"
        elif following.offset == expected + 1:
            missing = f"offset {expected} is missing"
        else:
            missing = f"the offsets {expected} to {following.offset - 1} are missing"
        return NotReplayable(
            f"topic {topic}, partition {self._partition}: {missing}, but batch {batch.sequence} has "
            f"applied offset {expected}. {HISTORY_HINT}"
        )
