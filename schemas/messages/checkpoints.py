"""`checkpoints`: all rows of a partition at one position of the journal.

A replay that goes back further than the journal starts from a checkpoint. All rows are
joined into one string of bytes, the content, which is split into records at arbitrary positions:

    content   for each row: key and length in bytes as a line of JSON, a line break, the bytes
    record    the `CheckpointPiece` as a line of JSON, a line break, a part of the content

Pieces of several checkpoints can be interleaved; pieces of one checkpoint have the same position. A
checkpoint without its closing piece, or with a wrong digest, is ignored.
"""

from typing import Annotated

from pydantic import Field

from schemas.base.message import Count, EpochMs, Message, Part


class CheckpointEnd(Part):
    """Size and digest of a complete checkpoint."""

    pieces: Count
    """Number of pieces with content; also the number of the closing piece, which has none."""
    rows: Count
    """Number of rows: all rows of the cluster stage, except the journal position."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """Digest of the content."""


class CheckpointPiece(Message):
    """A piece of a checkpoint (key: partition)."""

    partition: Count
    """Partition of the rows, and of this record."""
    epoch: Count
    """Epoch of the writer.

    Epoch, `sequence` and `offset` are the journal position that the rows reflect.
    """
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
