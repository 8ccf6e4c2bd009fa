"""`checkpoints`: the rows of a partition as they were at one place of the journal, in pieces.

A replay of a cluster that is older than its journal begins at one of them. The rows are one content,
which is cut into as many records as it takes, anywhere:

    content   for each row its key and length in bytes as a line of JSON, a line break, then its bytes
    record    the `CheckpointPiece` as a line of JSON, a line break, then a part of the content

Pieces of several checkpoints may stand between each other; they belong together by their place. One
without its closing piece, or with another digest than that names, is none.
"""

from typing import Annotated

from pydantic import Field

from schemas.base.message import Count, EpochMs, Message, Part


class CheckpointEnd(Part):
    """What a whole checkpoint consists of."""

    pieces: Count
    """How many pieces have content; the closing piece, which has none, has this number."""
    rows: Count
    """How many rows there are: those of the tables of the cluster stage, all but how far they reflect
    the journal."""
    sha256: Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]
    """Over the content."""


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
    end: CheckpointEnd | None = None
    """The closing piece says here what came before it."""
