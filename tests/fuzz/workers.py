"""Workers that go on from what was written, as real ones do: over the journal, and over rows alone.

Only what a broker would hold passes from one life to the next: journal records and table rows, as
bytes.
"""

from collections.abc import Sequence
from dataclasses import replace
from random import Random
from typing import Protocol

from schemas.base.limits import BATCH_BYTES_MAX, VALUE_BYTES_MAX
from schemas.storage.tables import WINDOWS, table_of_key
from streams.aggregate.collect import AggregateLimits, Collecting
from streams.aggregate.restore import restore
from streams.aggregate.stage import AggregateStage
from streams.cluster.stage import ClusterStage
from streams.stage import journal
from streams.stage.packing import Changes, put
from streams.stage.records import InputRecord, OutputRecord, RowChange, StageResult
from tests.fuzz.failure import require


class Worker(Protocol):
    """A stage and what it has made durable."""

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        """Apply one batch and make it durable."""
        ...

    def restart(self, random: Random) -> None:
        """Another worker takes over; rows come to it in any order."""
        ...


class JournaledWorker:
    """The cluster stage: batches are journaled, and redone over rows."""

    def __init__(self, partition: int, partitions: int) -> None:
        self.partition, self.partitions = partition, partitions
        self.table: dict[str, bytes] = {}
        """Rows as written last."""
        self._written = journal.Place()
        """What the rows reflect."""
        self._tail: list[bytes] = []
        """Journal records after that."""
        self._published: list[OutputRecord] = []
        """What batches of the tail emitted."""
        self._place = journal.Place()
        self.stage = ClusterStage(partition, partitions)
        self._open()

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        """Apply one batch and journal it."""
        result = self.stage.apply(records)
        for value in journal.batch(self.partition, self._place, records, result):
            require(
                len(value) <= VALUE_BYTES_MAX,
                "a journal record is larger than what is read",
                f"{len(value)} bytes",
            )
            self._tail.append(value)
        end = self._written.offset + len(self._tail)
        self._place = journal.Place(self._place.epoch, self._place.sequence + 1, end)
        self._published += [*result.outputs, *result.dead_letters]
        return result

    def flush(self) -> None:
        """Redo the journal's tail over the rows, and write them."""
        first = self._written.offset + 1
        tail = journal.follow(self._written, list(enumerate(self._tail, first)))
        require(tail.outputs == self._published, "the journal gives other outputs than the stage")
        require(tail.place == self._place, "the journal ends elsewhere", f"{tail.place}")
        put(self.table, (RowChange(key, value) for key, value in tail.rows.items()))
        for key, value in self.table.items():
            require(
                len(value) <= BATCH_BYTES_MAX,
                "a row is larger than what a changelog takes",
                f"{key}: {len(value)} bytes",
            )
        self._written, self._tail, self._published = tail.place, [], []

    def restart(self, random: Random) -> None:
        """A new writer opens the journal and goes on from the rows."""
        self.flush()
        rows = list(self.table.items())
        random.shuffle(rows)
        self.stage = ClusterStage.restored(self.partition, self.partitions, dict(rows))
        self._open()

    def _open(self) -> None:
        self._tail.append(journal.opening(self.partition))
        offset = self._written.offset + len(self._tail)
        self._place = replace(self._place, epoch=offset, offset=offset)


class WriteThroughWorker:
    """The aggregate stage: every changed row is written."""

    def __init__(
        self, partition: int, partitions: int, collecting: Collecting, limits: AggregateLimits
    ) -> None:
        self.partition, self.partitions = partition, partitions
        self._collecting, self._limits = collecting, limits
        self.table: dict[str, bytes] = {}
        self.stage = self._restored()

    def apply(self, records: Sequence[InputRecord]) -> StageResult:
        """Apply one batch and write its rows."""
        result = self.stage.apply(records)
        for row in result.rows:
            require(table_of_key(row.key) == WINDOWS, "a row is of another table", row.key)
            if row.value is None:
                self.table.pop(row.key, None)
                continue
            require(
                len(row.value) <= VALUE_BYTES_MAX,
                "a row is larger than what is read",
                f"{row.key}: {len(row.value)} bytes",
            )
            self.table[row.key] = row.value
        return result

    def restart(self, random: Random) -> None:
        """Another worker reads the rows."""
        keys = list(self.table)
        random.shuffle(keys)
        self.table = {key: self.table[key] for key in keys}
        self.stage = self._restored()

    def _restored(self) -> AggregateStage:
        state = restore(self.partition, self.table, self._collecting)
        return AggregateStage(state, self.partitions, self._limits)


def folded(rows: dict[str, bytes], changes: Changes) -> None:
    """Let rows be as the changes leave them."""
    put(rows, changes.rows(rows.get))
