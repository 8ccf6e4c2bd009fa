"""Reference stages: each applies what its worker made durable, record by record, and never stops.

A worker applies batches, stops, and goes on from its journal and rows. Its outputs and rows must
be those of the reference. The journal is also replayed, from its beginning or from a checkpoint.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from schemas.base.refusals import Refusal
from schemas.storage.tables import kind_of_key
from schemas.topics.codec import decode
from streams.aggregate.partition import PartitionState
from streams.aggregate.stage import AggregateStage
from streams.cluster.stage import ClusterStage
from streams.replay.recorded import NotReplayable, Recording
from streams.replay.verify import Verification
from streams.stage.checkpoint import Checkpoint
from streams.stage.journal import JournalDamaged
from streams.stage.packing import Changes, apply_changes
from streams.stage.records import InputRecord, OutputRecord, Stage, StageResult
from streams.stage.statistics import Counts
from tests.histories.failure import Failure, describe_exception, require
from tests.histories.log import PARTITION, PARTITIONS, Log, ReplayInputs
from tests.histories.workers import (
    AGGREGATE_LIMITS,
    COLLECTING,
    AggregateWorker,
    ClusterWorker,
    Worker,
)
from tests.streams.aggregate.content import content


@dataclass(frozen=True, slots=True)
class Applied:
    """One record, and what a stage made of it."""

    record: InputRecord
    message: Any
    """The record as it was read; None: it was refused, or it is of another stage."""
    counts: Counts
    result: StageResult
    outputs: tuple[Any, ...]
    """The messages of `result.outputs`."""

    @property
    def outcome(self) -> str:
        """What the stage counts the record as."""
        return next(iter(self.counts.results), "")


class Reference:
    """A stage beside the stage of a worker."""

    def __init__(self, stage: Stage, worker: Worker, check: Callable[[Applied], None]) -> None:
        """`check` is called with each record that was applied."""
        self.stage, self._worker, self._check = stage, worker, check

    def follow(self) -> None:
        """Apply what the worker made durable, and compare the outputs."""
        for batch in self._worker.durable:
            outputs: list[OutputRecord] = []
            dead_letters: list[OutputRecord] = []
            for record in batch.records:
                result = self._apply(record)
                outputs += result.outputs
                dead_letters += result.dead_letters
            _compare_outputs("outputs", outputs, batch.result.outputs)
            _compare_outputs("dead letters", dead_letters, batch.result.dead_letters)
        self._worker.durable.clear()

    def _apply(self, record: InputRecord) -> StageResult:
        try:
            result = self.stage.apply([record])
        except Exception as error:
            raise describe_exception(error, "a reference stage") from error
        counts = self.stage.take_counts()
        message = None if counts.refused else decode(record.topic, record.value)
        outputs = tuple(decode(output.topic, output.value) for output in result.outputs)
        self.take_rows(result)
        for output, raw in zip(outputs, result.outputs, strict=True):
            kind = f"an output on {raw.topic} cannot be read"
            require(not isinstance(output, Refusal), kind, f"{output} {raw.value!r}")
        self._check(Applied(record, message, counts, result, outputs))
        return result

    def take_rows(self, result: StageResult) -> None:
        pass


def _compare_outputs(
    noun: str, expected: list[OutputRecord], actual: tuple[OutputRecord, ...]
) -> None:
    for one, other in zip(expected, actual, strict=False):
        require(
            one == other,
            f"the worker has other {noun} than the reference, on {one.topic}",
            f"{other.value!r:.700} instead of {one.value!r:.700}",
        )
    kind = f"the worker has more or fewer {noun} than the reference"
    require(len(expected) == len(actual), kind, f"{len(actual)} instead of {len(expected)}")


class ClusterReference(Reference):
    """Compares the rows of the cluster worker as well, and replays its journal."""

    stage: ClusterStage

    def __init__(self, worker: ClusterWorker, log: Log, check: Callable[[Applied], None]) -> None:
        super().__init__(ClusterStage(PARTITION, PARTITIONS), worker, check)
        self._cluster_worker, self._log = worker, log
        self._rows: dict[str, bytes] = {}
        self._changes = Changes()
        """Changes of rows since the last comparison."""
        self._checkpoint: Checkpoint | None = None

    def take_rows(self, result: StageResult) -> None:
        for row in result.rows:
            self._changes.add(row.key, row.value)

    def compare_state(self) -> None:
        """The rows of the worker are those of the reference."""
        worker = self._cluster_worker
        worker.redo()
        apply_changes(self._rows, self._changes.pack_rows(self._rows.get))
        self._changes = Changes()
        for key in sorted(self._rows.keys() | worker.rows.keys()):
            expected, actual = self._rows.get(key), worker.rows.get(key)
            require(
                expected == actual,
                f"the worker has another row of {kind_of_key(key)} than the reference",
                f"{key} is {actual!r:.600} instead of {expected!r:.600}",
            )

    def replay(self) -> None:
        """Replay the journal from the checkpoint of the last call; then take another checkpoint."""
        worker = self._cluster_worker
        try:
            verification = Verification(PARTITION, PARTITIONS, None, self._checkpoint)
            start = verification.start
            first = start.position.offset + 1
            inputs = ReplayInputs(self._log, start.next_offsets)
            entries = enumerate(worker.journal[first:], first)
            difference = verification.verify(Recording(PARTITION, entries, inputs, start))
        except (JournalDamaged, NotReplayable) as error:
            raise Failure("the journal cannot be replayed", str(error)) from error
        require(difference is None, "the replay differs from the journal", difference)
        self._checkpoint = worker.take_checkpoint()


class AggregateReference(Reference):
    """Compares the windows of the aggregate worker as well."""

    stage: AggregateStage

    def __init__(self, worker: AggregateWorker, check: Callable[[Applied], None]) -> None:
        stage = AggregateStage(PartitionState(PARTITION, COLLECTING), PARTITIONS, AGGREGATE_LIMITS)
        super().__init__(stage, worker, check)
        self._aggregate_worker = worker

    def compare_state(self) -> None:
        """A stage that is restored from the rows of the worker has the windows of the reference."""
        restored = content(self._aggregate_worker.start())
        require(restored == content(self.stage), "restored windows differ from the reference")
