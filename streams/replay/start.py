"""Chooses the start of a replay.

- With a start time: the newest usable checkpoint before this time.
- Otherwise, or without such a checkpoint: the first batch, if the journal still has it.
- If the first batch or later inputs are missing: the oldest usable checkpoint.

A checkpoint is usable if it is complete, if the journal has the record at its position, and if all later
inputs exist.
"""

from bisect import bisect_left
from collections.abc import Iterable
from typing import Protocol

from schemas.base.refusals import Refusal
from schemas.storage.rows import PartitionRow
from schemas.storage.tables import PARTITION, kind_of_key
from schemas.topics.codec import decode_as
from streams.replay.recorded import HISTORY_HINT, NotReplayable
from streams.replay.report import format_time
from streams.stage import checkpoint, journal
from streams.stage.checkpoint import (
    Checkpoint,
    CheckpointDecoder,
    CheckpointFinder,
    FoundCheckpoint,
    matches_position,
    read_piece,
)

#: Pieces in the first read before a start time; several checkpoints of a large cluster.
_FIRST_READ_PIECES = 1_000


class StoredTopics(Protocol):
    """The topics of one partition."""

    def read_extent(self, topic: str) -> tuple[int, int]:
        """Return the first and the next offset; 0 and 0 if the topic does not exist."""
        ...

    def read(
        self, topic: str, first_offset: int, last_offset: int
    ) -> Iterable[tuple[int, bytes | None]]:
        """Yield offset and value of each record from `first_offset` to `last_offset`."""
        ...


def choose_checkpoint(
    stored: StoredTopics, partition: int, from_ms: int | None
) -> Checkpoint | None:
    """Return the checkpoint to start from, to compare results since `from_ms`; None: the first batch.

    Raises:
        NotReplayable: the first batch is missing, and there is no usable checkpoint.
    """
    first_offset, end = stored.read_extent(journal.TOPIC)
    has_first_batch = first_offset == 0 and _has_first_batch(stored, end)
    if has_first_batch and from_ms is None:
        return None
    if from_ms is not None:
        newest = _find_newest(stored, partition, from_ms)
        if newest is not None or has_first_batch:
            return newest
    oldest = find_oldest_checkpoint(stored, partition)
    if oldest is not None and from_ms is None:
        return oldest
    missing = f"the journal offsets 0 to {first_offset - 1} are missing"
    if first_offset == 0:
        missing = "the partition was reset, so its earlier journal is missing"
    if oldest is not None and from_ms is not None:
        raise NotReplayable(
            f"{missing}, and there is no usable checkpoint before {format_time(from_ms)}. A replay is possible from "
            f"{format_time(oldest.now_ms)} on: choose a later time, or no time"
        )
    raise NotReplayable(
        f"{missing}, and topic {checkpoint.TOPIC} has no complete checkpoint with a position in the journal and all "
        "later inputs. A replay is possible after a worker has written a checkpoint "
        f"(LOADSTREAM_WORKER_CHECKPOINT_INTERVAL_S). {HISTORY_HINT}"
    )


def find_oldest_checkpoint(stored: StoredTopics, partition: int) -> Checkpoint | None:
    """Return the oldest usable checkpoint, or None."""
    finder = CheckpointFinder(partition)
    first, end = stored.read_extent(checkpoint.TOPIC)
    for offset, value in stored.read(checkpoint.TOPIC, first, end - 1):
        candidate = finder.feed(offset, value)
        usable = None if candidate is None else _read_usable(stored, partition, candidate)
        if usable is not None:
            return usable
    return None


def _find_newest(stored: StoredTopics, partition: int, before_ms: int) -> Checkpoint | None:
    """Return the newest usable checkpoint before a time; read backwards in growing steps."""
    first, _ = stored.read_extent(checkpoint.TOPIC)
    end = _find_offset(stored, partition, before_ms)
    size = _FIRST_READ_PIECES
    while True:
        start = max(first, end - size)
        finder = CheckpointFinder(partition)
        for offset, value in stored.read(checkpoint.TOPIC, start, end - 1):
            finder.feed(offset, value)
        for candidate in sorted(
            finder.found, key=lambda found: found.position.offset, reverse=True
        ):
            if candidate.now_ms is None or candidate.now_ms < before_ms:
                usable = _read_usable(stored, partition, candidate)
                if usable is not None:
                    return usable
        if start == first:
            return None
        size *= 4


def _find_offset(stored: StoredTopics, partition: int, at_ms: int) -> int:
    """Return the offset of the first piece at or after a time."""

    def read_time(offset: int) -> int:
        values = [value for _, value in stored.read(checkpoint.TOPIC, offset, offset)]
        piece = read_piece(partition, values[0]) if values else None
        return -1 if piece is None else piece[0].now_ms or 0

    first, end = stored.read_extent(checkpoint.TOPIC)
    return first + bisect_left(range(first, end), at_ms, key=read_time)


def _has_first_batch(stored: StoredTopics, end: int) -> bool:
    """Tell whether the journal starts with batch 0; after a reset, the journal starts with batch 1."""
    for _, value in stored.read(journal.TOPIC, 0, end - 1):
        record = journal.read_record(value)
        if not isinstance(record, Refusal) and not record[0].opens:
            return record[0].sequence == 0
    return True


def _read_usable(
    stored: StoredTopics, partition: int, candidate: FoundCheckpoint
) -> Checkpoint | None:
    """Return the checkpoint with its rows, or None if it is not usable."""
    first, end = stored.read_extent(journal.TOPIC)
    offset = candidate.position.offset
    if not first <= offset < end:
        return None
    values = [value for _, value in stored.read(journal.TOPIC, offset, offset)]
    if not values or not matches_position(candidate.position, values[0]):
        return None
    decoder = CheckpointDecoder(candidate.position)
    for _, value in stored.read(checkpoint.TOPIC, candidate.first_offset, candidate.last_offset):
        piece = read_piece(partition, value)
        complete = None if piece is None else decoder.feed(*piece)
        if complete is not None:
            return complete if _has_inputs(stored, complete) else None
    return None  # the content is damaged, or pieces were deleted meanwhile


def _has_inputs(stored: StoredTopics, complete: Checkpoint) -> bool:
    """Tell whether all inputs after the checkpoint exist."""
    values = [value for key, value in complete.rows if kind_of_key(key) == PARTITION]
    row = decode_as(PartitionRow, values[0]) if len(values) == 1 else None
    return isinstance(row, PartitionRow) and all(
        stored.read_extent(topic)[0] <= offset + 1 for topic, offset in row.offsets.items()
    )
