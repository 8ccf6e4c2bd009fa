"""How a batch is made durable, and what a partition is taken over from: the contract.

`writethrough` publishes outputs and then writes every changed row: enough for a stage whose outputs
are the same whenever they are made. `journal_first` writes the batch to the journal before anything
else.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from streams.stage.packing import Changes
from streams.stage.records import InputRecord, StageResult

#: Rows of one partition by table and key.
PartitionRows = dict[str, dict[str, bytes]]


@dataclass(frozen=True, slots=True)
class Applied:
    """One batch of one partition."""

    partition: int
    records: Sequence[InputRecord]
    """Those that were applied, in order."""
    result: StageResult


class Durability(Protocol):
    """Makes batches durable; partitions are opened before and closed after."""

    topics: tuple[str, ...]
    """Topics from which rows are redone: who deletes changelogs must delete these as well."""
    topic_ids: Mapping[str, str]
    """Ids of the journal and the changelogs now, as far as they are known; given before partitions
    are opened."""

    async def open(self, partition: int, rows: PartitionRows) -> PartitionRows:
        """Take a partition over; answers with its rows as they must be to go on."""
        ...

    async def commit(self, batches: Sequence[Applied]) -> None:
        """Returns when the batches cannot be lost any more."""
        ...

    async def flush(self, *, force: bool = False) -> None:
        """Write rows that are due; all that are unwritten if forced."""
        ...

    def unwritten(self, partition: int) -> Sequence[Changes]:
        """Changes of rows that are durable and that the tables may lack, the oldest first."""
        ...

    def close(self, partition: int) -> None:
        """The partition belongs to somebody else now."""
        ...
