"""`journal`: batches applied to a partition. `checkpoints`: all rows at one position of the journal.

A batch has the offsets of its inputs in the order applied, the changed rows, the outputs and the
epoch of its writer. Applying the recorded inputs in the recorded order gives the same state and
outputs. The content of a batch is split into records at arbitrary places:

    content   the `BatchIndex` as a line of JSON, a line break, then the bytes of all rows and outputs
              in its order, without separators
    record    the `JournalRecord` as a line of JSON, a line break, then a part of the content

Values are stored as raw bytes, without quoting. The record that opens an epoch has no content.

A replay that goes back further than the journal starts from a checkpoint, which is split in the same way:

    content   for each row: key and length in bytes as a line of JSON, a line break, the bytes
    record    the `CheckpointPiece` as a line of JSON, a line break, a part of the content

Pieces of several checkpoints can be interleaved; pieces of one checkpoint have the same position. A
checkpoint without its closing piece, or with a wrong digest, is ignored.
"""

from itertools import accumulate, pairwise
from typing import Annotated

from pydantic import Field

from schemas.base.message import INT64_MAX, Count, Counts, Entries, EpochMs, Message, Part, StateMs


class InputRun(Part):
    """Consecutive offsets of one topic, applied in order."""

    topic: str
    first_offset: Count
    """Offset of the first record of the run."""
    last_offset: Count
    """Offset of the last record of the run (inclusive)."""
    refused_at_ms: EpochMs | None = None
    """Only for `clock`: the worker's time when it refused these ticks because they were too far
    ahead of it. None: they were not refused."""


class JournalRecord(Message):
    """The beginning of an epoch, or the head of a batch or of a part of a batch (key: partition)."""

    partition: Count
    """Partition of the state, and of this record."""
    opens: bool = False
    """A new writer takes over the partition; its epoch is the offset of this record."""
    epoch: Count
    """Epoch of the writer. Batches of other epochs after an opening record come from a writer that
    has lost the partition; readers ignore them."""
    sequence: Count
    """Number of the batch, without gaps."""
    part: Count = 0
    """Number of this part, from 0."""
    parts: Annotated[int, Field(ge=1, le=INT64_MAX)] = 1
    """Number of records of the batch; an incomplete batch is ignored."""
    applied: Count = 0
    """Number of applied input records."""
    rows: Count = 0
    """Number of changed rows."""
    outputs: Count = 0
    """Number of outputs."""
    positions: Counts = Field(default_factory=dict)
    """Offset of the last applied record of each input topic after the batch."""


class BatchIndex(Part):
    """Inputs, changed rows and outputs of a batch, in the order of their bytes."""

    inputs: Entries[InputRun] = ()
    """Applied records, in the order applied."""
    rows: Entries[tuple[str, Count | None]] = ()
    """Changed rows: key and length in bytes; no length: the row was deleted. Rows of kind
    `reserved_pods` change pod by pod: the value is a `ReservedPod`, and the key is the row's key, a
    slash and the pod's uid."""
    outputs: Entries[tuple[str, str, StateMs | None, Count]] = ()
    """Outputs: topic, key, timestamp of the record, length in bytes."""


def split_content(content: bytes) -> tuple[BatchIndex, list[bytes], list[bytes]]:
    """Return the index of a complete batch, the values of its rows, and the values of its outputs.

    Raises:
        ValueError: the length of the content does not match its index.
    """
    line, _, values = content.partition(b"\n")
    index = BatchIndex.model_validate_json(line)
    lengths = [row[1] or 0 for row in index.rows] + [output[3] for output in index.outputs]
    ends = list(accumulate(lengths, initial=0))
    if ends[-1] != len(values):
        raise ValueError(f"found {len(values)} bytes of values; the index says {ends[-1]}")
    parts = [values[begin:end] for begin, end in pairwise(ends)]
    return index, parts[: len(index.rows)], parts[len(index.rows) :]


class CheckpointEnd(Part):
    """Size and digest of a complete checkpoint."""

    pieces: Count
    """Number of pieces with content; also the number of the closing piece, which has no content."""
    rows: Count
    """Number of rows: all rows of the cluster stage, except the journal position."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """Digest of the content."""


class CheckpointPiece(Message):
    """A piece of a checkpoint (key: partition)."""

    partition: Count
    """Partition of the rows, and of this record."""
    epoch: Count
    """Epoch of the writer. Epoch, `sequence` and `offset` are the journal position that the rows
    reflect."""
    sequence: Annotated[int, Field(ge=-1, le=2**63 - 1)]
    """Number of the last applied batch; -1: none."""
    offset: Count
    """Offset of the last journal record read: the last record of the batch, or an opening record.
    """
    now_ms: EpochMs | None = None
    """Log time at that position; none: before the first clock tick."""
    piece: Count
    """Number of this piece, from 0."""
    end: CheckpointEnd | None = None
    """Set on the closing piece only."""
