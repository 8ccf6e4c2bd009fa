"""What was recorded: the batches of a journal that count, each with the inputs that it applied.

    journal ──▶ batches that count ──▶ their inputs, from the input topics, in the recorded order

`Recording` is an iterator, and each use of a history is one consumer of it: `verify` makes all
decisions again and compares them byte by byte. A consumer brings its own stage, and may give it
other records or another policy. Every record of an input topic must have been applied exactly once:
one that was passed over or named twice is `NotOnce`. A history that is not whole is an error. Pure:
records in, batches out; one batch is held.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

from schemas.base.message import INT64_MAX
from schemas.topics.catalog import CLUSTER_INPUTS
from streams.stage import journal
from streams.stage.journal_records import JournalBatch
from streams.stage.records import InputRecord

#: What to do if a part of the history is gone.
HISTORY_HINT = (
    "A replay needs every record since the journal's first batch or since a checkpoint: retention.ms of "
    "the topics, and min.compaction.lag.ms of a compacted one, say how long there is one."
)


class NotReplayable(RuntimeError):
    """Something that was applied is not there any more, so nothing can be said about its effect."""


class NotOnce(Exception):
    """A record was applied twice, or never."""

    def __init__(
        self, sequence: int, journal_offset: int, problem: str, culprit: InputRecord | None = None
    ) -> None:
        """`culprit` is the record that was passed over; none: it was applied twice."""
        super().__init__(problem)
        self.sequence = sequence
        self.journal_offset = journal_offset
        self.problem = problem
        self.culprit = culprit


class Inputs(Protocol):
    """The input topics of one partition, each read once, from where the recording begins."""

    def through(self, topic: str, last_offset: int) -> Iterable[InputRecord]:
        """Records of a topic that were not given before, up to and with an offset.

        Offsets that hold nothing are passed over. Ends early if the topic ends.
        """
        ...


@dataclass(frozen=True, slots=True)
class Beginning:
    """Where in a history to begin: with its first batch, or after what a checkpoint holds."""

    place: journal.JournalPlace = field(default_factory=journal.JournalPlace)
    """Of the journal; the record after it is the first."""
    following: Mapping[str, int] = field(default_factory=dict)
    """Least offset of each input topic that has not been applied; 0 if none is named."""


@dataclass(frozen=True, slots=True)
class RecordedBatch:
    """One batch, and what it was made from."""

    batch: JournalBatch
    journal_offset: int
    """Offset of the journal record that ends it."""
    inputs: tuple[InputRecord, ...]
    """What it applied, in its order."""


class Recording:
    """The recorded batches of one partition in their order; an iterator."""

    def __init__(
        self,
        partition: int,
        entries: Iterable[tuple[int, bytes | None]],
        inputs: Inputs,
        beginning: Beginning | None = None,
    ) -> None:
        """Begin to read.

        Args:
            partition: whose journal it is.
            entries: offset and value of the journal's records after `beginning.place`, in order.
            inputs: what the journal names, from `beginning.following` on.
            beginning: none: the first batch.
        """
        beginning = beginning or Beginning()
        self._partition = partition
        self._entries = iter(entries)
        self._inputs = inputs
        self._reader = journal.JournalReader(beginning.place, partition)
        self._following = dict(beginning.following)
        self.foreign = 0
        """Records in the journal that are not of it; they were passed over."""

    def __iter__(self) -> Iterator[RecordedBatch]:
        return self

    def __next__(self) -> RecordedBatch:
        """The batch that follows.

        Raises:
            JournalDamaged: the journal cannot be read, or does not go on right there.
            NotOnce: a record was applied twice, or never.
            NotReplayable: an input that was applied is not there any more.
        """
        for offset, value in self._entries:
            batch = self._reader.take(offset, value)
            self.foreign += len(self._reader.take_foreign())
            if batch is not None:
                return RecordedBatch(batch, offset, tuple(self._applied(batch, offset)))
        raise StopIteration

    def _applied(self, batch: JournalBatch, offset: int) -> Iterator[InputRecord]:
        """What the batch applied, in its order; every record of a topic comes exactly once."""
        for run in batch.inputs:
            topic, expected = run.topic, run.first_offset
            if topic not in CLUSTER_INPUTS:
                raise NotReplayable(
                    f"batch {batch.sequence} applied records of topic {topic}, which this version does "
                    "not read; replay with the version that has written the journal"
                )
            if expected < self._following.get(topic, 0):
                problem = f"{topic} offset {expected} was applied before"
                raise NotOnce(batch.sequence, offset, problem)
            for record in self._inputs.through(topic, run.last_offset):
                if record.offset < expected:
                    problem = f"{topic} offset {record.offset} was never applied"
                    raise NotOnce(batch.sequence, offset, problem, record)
                if record.offset > expected:
                    raise self._gone(batch, topic, expected, record)
                if run.refused_at_ms is not None:
                    record = replace(record, refused_at_ms=run.refused_at_ms)
                yield record
                expected += 1
            if expected <= run.last_offset:
                rest = iter(self._inputs.through(topic, INT64_MAX))
                raise self._gone(batch, topic, expected, next(rest, None))
            self._following[topic] = expected

    def _gone(
        self, batch: JournalBatch, topic: str, first: int, there: InputRecord | None
    ) -> NotReplayable:
        """What is missing, up to the record that is there again."""
        if there is None:
            gone = f"the offsets from {first} on are gone"
        elif there.offset == first + 1:
            gone = f"offset {first} is gone"
        else:
            gone = f"the offsets {first} to {there.offset - 1} are gone"
        return NotReplayable(
            f"topic {topic}, partition {self._partition}: {gone}, and batch {batch.sequence} has "
            f"applied {first}. {HISTORY_HINT}"
        )
