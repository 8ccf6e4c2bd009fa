"""Where a replay begins: with the journal's first batch, or at a checkpoint.

It is the first batch if the journal still has it and no time is asked for. If its beginning is
gone, or an input that was applied since, it is the oldest usable checkpoint, after which most can
be compared; if a time is asked for, the newest one before it. A checkpoint counts if it is whole,
if the journal has at its place what it says, and if the inputs after it are there. Whether the
journal goes on right there is seen as it is read. Pure: what is stored is asked for.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol

from schemas.codec import decode_as
from schemas.refusals import Refusal
from schemas.rows import PartitionRow
from schemas.tables import PARTITION, kind_of_key
from streams.replay.recorded import HISTORY_HINT, NotReplayable
from streams.replay.report import time_text
from streams.stage import checkpoint, journal
from streams.stage.checkpoint import (
    Assembler,
    Checkpoint,
    Finder,
    Found,
    eligible,
    is_place,
    read_piece,
)
from streams.stage.journal_records import read_record


class Stored(Protocol):
    """The topics of one partition."""

    def extent(self, topic: str) -> tuple[int, int]:
        """First offset, and the one that the next record gets; 0 and 0 if there is no such topic."""
        ...

    def read(
        self, topic: str, first_offset: int, last_offset: int
    ) -> Iterable[tuple[int, bytes | None]]:
        """Offsets and values from one offset up to and with another, without those that are gone."""
        ...


def find_beginning(stored: Stored, partition: int, from_ms: int | None) -> Checkpoint | None:
    """What a replay that compares from a time on begins at; none: the journal's first batch.

    Raises:
        NotReplayable: the first batch is gone, and there is no such checkpoint.
    """
    first, end = stored.extent(journal.TOPIC)
    whole = first == 0 and _begins_with_first_batch(stored, end)
    if whole and from_ms is None:
        return None
    finder, in_journal = _checkpoints(stored, partition)
    usable = next(_usable(stored, partition, eligible(in_journal, from_ms)), None)
    if usable is not None or whole:
        return usable
    gone = f"journal offsets 0 to {first - 1} are gone"
    if first == 0:
        gone = "the partition was reset, and what its journal held before is gone"
    later = None
    if from_ms is not None:
        later = next(_usable(stored, partition, eligible(in_journal, None)), None)
    if later is not None:
        raise NotReplayable(
            f"{gone}, and no checkpoint of before {time_text(from_ms)} can be begun at. A replay is possible since "
            f"{time_text(later.now_ms)}: ask for a later time, or for none"
        )
    raise NotReplayable(
        f"{gone}, and topic {checkpoint.TOPIC} has nothing to begin at instead: {len(finder.found)} whole "
        f"checkpoints, {len(in_journal)} of them in the journal and none with all that was applied after it; "
        f"{finder.incomplete} that never became whole; {finder.unreadable} unreadable records. A replay is possible "
        f"since the next checkpoint that a worker writes (LOADSTREAM_WORKER_CHECKPOINT_INTERVAL_S). {HISTORY_HINT}"
    )


def oldest_checkpoint(stored: Stored, partition: int) -> Checkpoint | None:
    """The one after which most can be compared, where not all inputs since the journal's first batch
    are there; none: there is none that can be gone on from."""
    _, in_journal = _checkpoints(stored, partition)
    return next(_usable(stored, partition, eligible(in_journal, None)), None)


def _checkpoints(stored: Stored, partition: int) -> tuple[Finder, list[Found]]:
    """What has been found of checkpoints, and those of which the journal still has the place."""
    finder = Finder(partition)
    for offset, value in stored.read(checkpoint.TOPIC, *_whole(stored.extent(checkpoint.TOPIC))):
        finder.take(offset, value)
    first, end = stored.extent(journal.TOPIC)
    return finder, [each for each in finder.found if first <= each.place.offset < end]


def _begins_with_first_batch(stored: Stored, end: int) -> bool:
    """Whether the first batch of a journal is the first of all; after a reset numbers begin with 1."""
    for _, value in stored.read(journal.TOPIC, 0, end - 1):
        found = read_record(value)
        if not isinstance(found, Refusal) and not found[0].opens:
            return found[0].sequence == 0
    return True


def _usable(stored: Stored, partition: int, found: list[Found]) -> Iterator[Checkpoint]:
    """Those of them that can be gone on from, in their order."""
    for each in found:
        offset = each.place.offset
        values = [value for _, value in stored.read(journal.TOPIC, offset, offset)]
        if values and is_place(each.place, values[0]):
            whole = _assembled(stored, partition, each)
            if whole is not None and _has_inputs(stored, whole):
                yield whole


def _assembled(stored: Stored, partition: int, found: Found) -> Checkpoint | None:
    """Its rows; None: a part of it has gone meanwhile."""
    assembler = Assembler(found.place)
    for _, value in stored.read(checkpoint.TOPIC, found.first_offset, found.last_offset):
        piece = read_piece(partition, value)
        whole = None if piece is None else assembler.take(piece)
        if whole is not None:
            return whole
    return None


def _has_inputs(stored: Stored, found: Checkpoint) -> bool:
    """Whether no record after those that it has applied is gone."""
    clocks = [value for key, value in found.rows if kind_of_key(key) == PARTITION]
    row = decode_as(PartitionRow, clocks[0]) if len(clocks) == 1 else None
    return isinstance(row, PartitionRow) and all(
        stored.extent(topic)[0] <= offset + 1 for topic, offset in row.offsets.items()
    )


def _whole(extent: tuple[int, int]) -> tuple[int, int]:
    return extent[0], extent[1] - 1
