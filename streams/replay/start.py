"""Where a replay begins: with the journal's first batch, or at a checkpoint.

It is the first batch if the journal still has it and no time is asked for. If its beginning is
gone, or an input that was applied since, it is the oldest usable checkpoint, after which most can
be compared; if a time is asked for, the newest one before it. A checkpoint counts if it is whole,
if the journal has at its place what it says, and if the inputs after it are there. Whether the
journal goes on right there is seen as it is read. Pure: what is stored is asked for.
"""

from collections.abc import Iterable
from typing import Protocol

from schemas.base.refusals import Refusal
from schemas.storage.rows import PartitionRow
from schemas.storage.tables import PARTITION, kind_of_key
from schemas.topics.codec import decode_as
from streams.replay.recorded import HISTORY_HINT, NotReplayable
from streams.replay.report import time_text
from streams.stage import checkpoint, journal
from streams.stage.checkpoint import (
    Checkpoint,
    CheckpointDecoder,
    CheckpointFinder,
    FoundCheckpoint,
    matches_place,
    read_piece,
)
from streams.stage.journal_records import read_record

#: Pieces of checkpoints that are read at first, before a time: some checkpoints of a large cluster.
_FIRST_READ = 1_000


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
    if from_ms is not None:
        newest = _find_newest(stored, partition, from_ms)
        if newest is not None or whole:
            return newest
    finder = CheckpointFinder(partition)
    oldest = _find_oldest(stored, finder)
    if oldest is not None and from_ms is None:
        return oldest
    gone = f"journal offsets 0 to {first - 1} are gone"
    if first == 0:
        gone = "the partition was reset, and what its journal held before is gone"
    if oldest is not None and from_ms is not None:
        raise NotReplayable(
            f"{gone}, and no checkpoint of before {time_text(from_ms)} can be begun at. A replay is possible since "
            f"{time_text(oldest.now_ms)}: ask for a later time, or for none"
        )
    in_journal = [found for found in finder.found if first <= found.place.offset < end]
    raise NotReplayable(
        f"{gone}, and topic {checkpoint.TOPIC} has nothing to begin at instead: {len(finder.found)} whole "
        f"checkpoints, {len(in_journal)} of them in the journal and none with all that was applied after it; "
        f"{finder.incomplete} that never became whole; {finder.unreadable} unreadable records. A replay is possible "
        f"since the next checkpoint that a worker writes (LOADSTREAM_WORKER_CHECKPOINT_INTERVAL_S). {HISTORY_HINT}"
    )


def oldest_checkpoint(stored: Stored, partition: int) -> Checkpoint | None:
    """The one after which most can be compared, where not all inputs since the journal's first batch
    are there; none: there is none that can be gone on from."""
    return _find_oldest(stored, CheckpointFinder(partition))


def _find_oldest(stored: Stored, finder: CheckpointFinder) -> Checkpoint | None:
    """Reads the topic no further than to the first usable checkpoint."""
    first, end = stored.extent(checkpoint.TOPIC)
    for offset, value in stored.read(checkpoint.TOPIC, first, end - 1):
        found = finder.take(offset, value)
        usable = None if found is None else _read_usable(stored, finder.partition, found)
        if usable is not None:
            return usable
    return None


def _find_newest(stored: Stored, partition: int, before_ms: int) -> Checkpoint | None:
    """The newest usable checkpoint of before a time; reads back from there, further each time."""
    first, _ = stored.extent(checkpoint.TOPIC)
    end = _end_before(stored, partition, before_ms)
    size = _FIRST_READ
    while True:
        begin = max(first, end - size)
        finder = CheckpointFinder(partition)
        for offset, value in stored.read(checkpoint.TOPIC, begin, end - 1):
            finder.take(offset, value)
        for found in sorted(finder.found, key=lambda found: found.place.offset, reverse=True):
            if found.now_ms is None or found.now_ms < before_ms:
                usable = _read_usable(stored, partition, found)
                if usable is not None:
                    return usable
        if begin == first:
            return None
        size *= 4


def _end_before(stored: Stored, partition: int, before_ms: int) -> int:
    """Offset in topic `checkpoints` up to which pieces are of before a time, by bisection: each
    piece says its checkpoint's time."""
    low, high = stored.extent(checkpoint.TOPIC)
    while low < high:
        middle = (low + high) // 2
        times = [
            piece[0].now_ms or 0
            for _, value in stored.read(checkpoint.TOPIC, middle, middle)
            if (piece := read_piece(partition, value)) is not None
        ]
        if times and times[0] >= before_ms:
            high = middle
        else:
            low = middle + 1
    return low


def _begins_with_first_batch(stored: Stored, end: int) -> bool:
    """Whether the first batch of a journal is the first of all; after a reset numbers begin with 1."""
    for _, value in stored.read(journal.TOPIC, 0, end - 1):
        found = read_record(value)
        if not isinstance(found, Refusal) and not found[0].opens:
            return found[0].sequence == 0
    return True


def _read_usable(stored: Stored, partition: int, found: FoundCheckpoint) -> Checkpoint | None:
    """The checkpoint with its rows; none: it cannot be gone on from."""
    first, end = stored.extent(journal.TOPIC)
    offset = found.place.offset
    if not first <= offset < end:
        return None
    values = [value for _, value in stored.read(journal.TOPIC, offset, offset)]
    if not values or not matches_place(found.place, values[0]):
        return None
    whole = _assembled(stored, partition, found)
    return whole if whole is not None and _has_inputs(stored, whole) else None


def _assembled(stored: Stored, partition: int, found: FoundCheckpoint) -> Checkpoint | None:
    """Its rows; None: a part of it has gone meanwhile."""
    decoder = CheckpointDecoder(found.place)
    for _, value in stored.read(checkpoint.TOPIC, found.first_offset, found.last_offset):
        piece = read_piece(partition, value)
        whole = None if piece is None else decoder.take(*piece)
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
