"""`checkpoints`: the rows of a partition as they were at one place of the journal, in pieces.

A replay of a cluster that is older than its journal begins at one of them. Pieces of several
checkpoints may stand between each other; they belong together by their place. One without its
closing piece, or with another digest than that names, is none.
"""

from typing import Annotated

from pydantic import Field

from schemas.base import Count, EpochMs, Message, Part


class CheckpointRow(Part):
    """A table row, or a part of one."""

    key: str
    """Key of the row."""
    value: str
    """The row as JSON; of a row that is continued the text so far."""
    continued: bool = False
    """The row is too long for one piece: its text goes on with the next row, of the same key."""


class CheckpointEnd(Part):
    """What a whole checkpoint consists of."""

    pieces: Count
    """How many pieces hold rows; the closing piece has this number."""
    rows: Count
    """How many rows there are, a continued one counted once."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """Over the rows in their order: key and value, each followed by its length in bytes (8
    bytes, big endian)."""


class CheckpointPiece(Message):
    """A piece of a checkpoint (key: partition)."""

    partition: Count
    """Partition whose rows they are; also the partition of this record."""
    epoch: Count
    """Epoch of the writer: with `sequence` and `offset` the place in the journal that the rows
    reflect."""
    sequence: Annotated[int, Field(ge=-1, le=2**63 - 1)]
    """Number of the batch applied last; -1: none was."""
    offset: Count
    """Offset of the journal record read last: that of the batch's last record, or of an opening
    record."""
    now_ms: EpochMs | None = None
    """The log's time there; none: before its clock ticked first."""
    piece: Count
    """Which piece this is, from 0."""
    rows: Annotated[tuple[CheckpointRow, ...], Field(fail_fast=True)] = ()
    """Rows of the tables of the cluster stage, all but how far they reflect the journal."""
    end: CheckpointEnd | None = None
    """The closing piece says here what came before it."""
