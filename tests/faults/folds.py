"""State equals the fold of the journal, and what was restored equals what was not.

Beside each worker, which stops and goes on, a stage that never stops folds what the worker says that
it has applied, and must come to the same outputs and rows, byte for byte. Now and then it is put
together anew from a checkpoint, or from rows, and must still do so.
"""

from collections.abc import Iterator

from streams.replay.recorded import NotReplayable, Recording
from streams.replay.verify import Verification
from streams.stage.checkpoint import Checkpoint
from streams.stage.journal import JournalDamaged
from tests.faults.log import Inputs, Log
from tests.faults.trace import PARTITIONS
from tests.faults.workers import AggregateWorker, ClusterWorker
from tests.fuzz.failure import Failure, require


class _Growing:
    """Records of a journal that goes on: what comes after an end is read the next time."""

    def __init__(self, values: list[bytes], first: int) -> None:
        self._values, self._next = values, first

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        return self

    def __next__(self) -> tuple[int, bytes]:
        if self._next == len(self._values):
            raise StopIteration
        self._next += 1
        return self._next - 1, self._values[self._next - 1]


class JournalFold:
    """Folds the journal of one worker, as a replay does."""

    def __init__(self, worker: ClusterWorker, log: Log) -> None:
        self._worker, self._log = worker, log
        self._resting = False
        self._begin(None)

    def _begin(self, checkpoint: Checkpoint | None) -> None:
        partition = self._worker.partition
        self._verification = Verification(partition, PARTITIONS, None, checkpoint)
        beginning = self._verification.beginning
        entries = _Growing(self._worker.journal, beginning.place.offset + 1)
        inputs = Inputs(self._log, partition, beginning.following)
        self._recording = Recording(partition, entries, inputs, beginning)

    def check(self, *, rest: bool) -> None:
        """Fold what is new; `rest`: leave out what follows, until the next check.

        After that it goes on from a checkpoint.
        """
        if self._resting:
            self._resting = rest
            self._begin(self._worker.checkpoint())
            return
        self._resting = rest
        try:
            difference = self._verification.verify(self._recording)
        except (JournalDamaged, NotReplayable) as error:
            raise Failure("the journal cannot be replayed", str(error)) from error
        if difference is not None:
            found = "; ".join(f"{each}"[:300] for each in difference.mismatches[:3])
            raise Failure(
                "state is not the fold of the journal",
                f"batch {difference.sequence}: {difference.problem} {found}",
            )
        checkpoint = self._worker.checkpoint()
        rows, written = self._verification._stored(), dict(checkpoint.rows)
        for key in sorted(rows.keys() | written.keys()):
            require(
                rows.get(key) == written.get(key),
                "rows are not what the journal's fold has",
                f"{key}: {written.get(key)!r:.300} instead of {rows.get(key)!r:.300}",
            )


class RowsFold:
    """Folds what an aggregate worker has applied."""

    def __init__(self, worker: AggregateWorker) -> None:
        self._worker = worker
        self._stage = worker.restored()
        self._applied = self._emitted = 0
        self._resting = False

    def check(self, *, rest: bool) -> None:
        """Fold what is new; `rest`: leave out what follows, until the next check.

        After that it goes on from the worker's rows.
        """
        worker = self._worker
        if self._resting:
            self._resting = rest
            self._stage = worker.restored()
            self._applied, self._emitted = len(worker.history), len(worker.emitted)
            return
        self._resting = rest
        result = self._stage.apply(worker.history[self._applied :])
        self._applied = len(worker.history)
        expected = [each.value for each in (*result.outputs, *result.dead_letters)]
        found = worker.emitted[self._emitted :]
        self._emitted = len(worker.emitted)
        require(
            sorted(found) == sorted(expected),
            "metrics are not those of the fold",
            f"{len(found)} instead of {len(expected)}",
        )
