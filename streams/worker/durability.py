"""How a batch is made durable, and what a partition is taken over from: the contract.

`writethrough` publishes outputs and then writes every changed row: enough for a stage whose outputs
are the same whenever they are made. `journal_first` writes the batch to the journal before anything
else. A batch is made durable in two steps, so that the next one can be written to the journal while
the outputs of this one are published.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from streams.stage.journal import Place
from streams.stage.packing import Changes
from streams.stage.records import InputRecord, OutputRecord, StageResult

#: Rows of one partition by key.
PartitionRows = dict[str, bytes]


@dataclass(frozen=True, slots=True)
class Applied:
    """One batch of one partition."""

    partition: int
    records: Sequence[InputRecord]
    """Those that were applied, in order."""
    result: StageResult


@dataclass(frozen=True, slots=True)
class Journaled:
    """Batches, one of a partition, that would be redone after a crash."""

    batches: Sequence[Applied]
    places: Sequence[Place] = ()
    """Where each of them ends in the journal; empty: there is no journal."""

    @property
    def published(self) -> Iterator[OutputRecord]:
        """What they publish, in its order: of each batch its outputs, then its dead letters."""
        for batch in self.batches:
            yield from batch.result.outputs
            yield from batch.result.dead_letters


class Durability(Protocol):
    """Makes batches durable; partitions are opened before and closed after."""

    topics: tuple[str, ...]
    """Topics from which rows are redone, beside the changelogs."""
    topic_ids: Mapping[str, str]
    """Ids of the inputs, the journal and the changelogs now, as far as they are known; given before
    partitions are opened."""

    async def open(self, partition: int, rows: PartitionRows) -> PartitionRows:
        """Take a partition over; answers with its rows as they must be to go on.

        Raises:
            TopicChanged: the rows name another id of a topic.
        """
        ...

    async def append(self, batches: Sequence[Applied]) -> Journaled:
        """Write the batches to the journal, if there is one; called in the order of applying."""
        ...

    async def commit(self, journaled: Journaled) -> None:
        """Returns when the batches cannot be lost any more and their outputs are published; called
        in the same order. The batches after them may be journaled meanwhile."""
        ...

    async def flush(self, *, force: bool = False) -> None:
        """Write rows that are due; all that are unwritten if forced."""
        ...

    def unwritten(self, partition: int) -> Sequence[Changes]:
        """Changes of rows that are durable and that the tables may lack, the oldest first."""
        ...

    def close(self, partition: int) -> None:
        """The partition belongs to another worker now."""
        ...
