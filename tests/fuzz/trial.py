"""A history, applied twice: record by record by a stage that never ends, and in batches by workers
that do.

    step ──▶ plain stage ──▶ checks of each record ──▶ what must come of the batch
        └──▶ batch ──▶ worker, now and then restarted ──▶ the same outputs, the same rows

Whatever does not hold is raised as a `Failure`.
"""

import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from random import Random
from typing import Any

from schemas.base.limits import VALUE_BYTES_MAX
from schemas.base.refusals import Refusal
from schemas.messages.dead_letters import DeadLetter, joined, source_record
from schemas.topics.catalog import key_of
from schemas.topics.codec import decode, encode
from streams.stage.records import InputRecord, OutputRecord, Stage, StageResult
from streams.stage.statistics import Counts
from tests.fuzz.coverage import Coverage
from tests.fuzz.failure import Failure, raised, require
from tests.fuzz.history import Cut, Step
from tests.fuzz.workers import Worker


class Trial(ABC):
    """One history of one stage."""

    def __init__(self, seed: int, stage: Stage, worker: Worker) -> None:
        self.coverage = Coverage()
        self._random = Random(f"restarts {seed}")
        self._stage = stage
        self._worker = worker
        self._batch: list[InputRecord] = []
        self._expected = StageResult()
        """What the batch must give; rows left out."""

    def take(self, step: Step) -> list[Any]:
        """Apply a record; answers with the messages that it causes."""
        result = self._applied(step.record)
        said = [self._message(output) for output in result.outputs]
        self.check_record(step.record, result, said)
        self._batch.append(step.record)
        self._expected = StageResult(
            (*self._expected.outputs, *result.outputs),
            (),
            (*self._expected.dead_letters, *result.dead_letters),
        )
        if step.cut is not Cut.NONE:
            self._end_batch(restart=step.cut is Cut.RESTART)
        return said

    def finish(self) -> None:
        """The history is over."""
        self._end_batch(restart=True)

    # --- one record -----------------------------------------------------------------------------

    def _applied(self, record: InputRecord) -> StageResult:
        began_s = time.process_time()
        try:
            result = self._stage.apply([record])
        except Exception as error:
            raise raised(error, "the stage") from error
        spent_s = time.process_time() - began_s
        self.coverage.spent(record, spent_s)
        counts = self._stage.take_counts()
        refused = sum(counts.refused.values())
        self._check_letters(record, result.dead_letters, refused)
        self.check_counts(record, counts, result)
        self.coverage.count(record, counts)
        return result

    def _check_letters(
        self, record: InputRecord, letters: Sequence[OutputRecord], refused: int
    ) -> None:
        """A refused record is buried whole; no other one is."""
        require(
            bool(letters) == bool(refused), "a record is refused and not buried, or buried only"
        )
        if not letters:
            return
        read = [self._letter(letter) for letter in letters]
        try:
            whole = joined(read)
            buried = source_record(whole)
        except ValueError as error:
            raise Failure("a dead letter cannot be put together", str(error)) from error
        found = (whole.topic, whole.partition, whole.offset, *buried)
        expected = (record.topic, record.partition, record.offset, record.key, record.value)
        require(found == expected, "a dead letter holds another record")
        require(whole.category != "internal", f"a defect of ours: {whole.reason[:120]}")

    def _letter(self, output: OutputRecord) -> DeadLetter:
        message = self._message(output)
        require(isinstance(message, DeadLetter), "a dead letter is something else")
        assert isinstance(message, DeadLetter)
        return message

    def _message(self, output: OutputRecord) -> Any:
        """An output as its reader sees it."""
        size = len(output.value)
        require(
            size <= VALUE_BYTES_MAX, f"a record of {output.topic} is too large", f"{size} bytes"
        )
        message = decode(output.topic, output.value)
        if isinstance(message, Refusal):
            kind = f"a record of {output.topic} cannot be read"
            raise Failure(kind, f"{message.reason}: {output.value[:500]!r}")
        require(output.key == key_of(output.topic, message), f"a key of {output.topic} is wrong")
        again = encode(message)
        require(
            again == output.value or output.topic == "node-metrics",
            f"a record of {output.topic} is read as something else",
        )
        return message

    # --- batches --------------------------------------------------------------------------------

    def _end_batch(self, *, restart: bool) -> None:
        batch, self._batch = self._batch, []
        expected, self._expected = self._expected, StageResult()
        try:
            result = self._worker.apply(batch) if batch else StageResult()
        except Failure:
            raise
        except Exception as error:
            raise raised(error, "a worker") from error
        _same("outputs", expected.outputs, result.outputs)
        _same("dead letters", expected.dead_letters, result.dead_letters)
        if not restart:
            return
        self.coverage.restarts += 1
        try:
            self._worker.restart(self._random)
        except Failure:
            raise
        except Exception as error:
            raise raised(error, "a worker that starts") from error
        self.compare()

    # --- what differs by stage ------------------------------------------------------------------

    @abstractmethod
    def check_counts(self, record: InputRecord, counts: Counts, result: StageResult) -> None:
        """Exactly one thing happens to a record."""

    @abstractmethod
    def check_record(self, record: InputRecord, result: StageResult, said: list[Any]) -> None:
        """What holds of this record and of what it caused."""

    @abstractmethod
    def compare(self) -> None:
        """The worker that has just started is where the plain stage is."""


def _same(what: str, expected: Sequence[OutputRecord], found: Sequence[OutputRecord]) -> None:
    if tuple(expected) == tuple(found):
        return
    for number, (one, other) in enumerate(zip(expected, found, strict=False)):
        if one != other:
            kind = f"a worker gives other {what} than a stage that never ends: {one.topic}"
            raise Failure(
                kind, f"number {number} is {other.value[:800]!r} instead of {one.value[:800]!r}"
            )
    kind = f"a worker gives more or fewer {what} than a stage that never ends"
    topics = Counter(each.topic for each in expected), Counter(each.topic for each in found)
    raise Failure(kind, f"expected {dict(topics[0])}, found {dict(topics[1])}")
