"""Encodes the rows of a partition as a checkpoint, and decodes them again.

    rows at a journal position ──▶ `CheckpointEncoder` ──▶ pieces; the last one has counts and a digest
    pieces ──▶ `CheckpointFinder` ──▶ complete checkpoints
    pieces of one checkpoint ──▶ `CheckpointDecoder` ──▶ rows, if the digest is right

All rows are joined to one byte string, which is split at any byte (`schemas.messages.journal`). If a
worker has lost the partition without noticing, its pieces are mixed with those of the new owner. So a
checkpoint is identified by its journal position, which contains the writer's epoch. Incomplete
checkpoints are ignored.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

from schemas.base.limits import PIECE_BYTES_MAX, PIECE_HEAD_BYTES_MAX, split_pieces
from schemas.base.refusals import Refusal
from schemas.messages.journal import CheckpointEnd, CheckpointPiece
from schemas.topics.codec import decode_as
from streams.stage.journal import JournalPosition, read_record

TOPIC = "checkpoints"

#: Bytes of content in one piece.
PIECE_BYTES = PIECE_BYTES_MAX

#: Key and value.
Row = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A checkpoint in topic `checkpoints` with all its pieces, from `first_offset` to `last_offset`."""

    position: JournalPosition
    now_ms: int | None
    """As in `Checkpoint`."""
    first_offset: int
    last_offset: int


@dataclass(frozen=True, slots=True)
class Checkpoint:
    position: JournalPosition
    """The journal position that the rows reflect."""
    now_ms: int | None
    """Log time; None: before the first clock tick."""
    rows: tuple[Row, ...]
    """Rows of the tables, packed."""


class CheckpointEncoder:
    """Encodes one checkpoint: `add` rows, then `close`."""

    def __init__(
        self,
        partition: int,
        position: JournalPosition,
        now_ms: int | None,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        """`piece_bytes` is the size of the content of a piece."""
        self._head: dict[str, Any] = {
            "schema_version": 1,
            "partition": partition,
            "epoch": position.epoch,
            "sequence": position.sequence,
            "offset": position.offset,
        }
        if now_ms is not None:
            self._head["now_ms"] = now_ms
        self._piece_bytes = piece_bytes
        self._digest = sha256()
        self._content = bytearray()
        self._pieces = 0
        self._count = 0

    def add(self, rows: Iterable[Row]) -> Iterator[bytes]:
        """Add rows; yield the pieces that they fill."""
        for key, value in rows:
            self._count += 1
            self._content += orjson.dumps([key, len(value)], option=orjson.OPT_APPEND_NEWLINE)
            self._content += value
            full = len(self._content) // self._piece_bytes * self._piece_bytes
            if full:
                yield from map(
                    self._encode_piece, split_pieces(bytes(self._content[:full]), self._piece_bytes)
                )
                del self._content[:full]

    def close(self) -> Iterator[bytes]:
        """Yield the remaining piece and the last one."""
        if self._content:
            yield self._encode_piece(bytes(self._content))
        end = CheckpointEnd(pieces=self._pieces, rows=self._count, sha256=self._digest.hexdigest())
        head = {**self._head, "piece": self._pieces, "end": end.model_dump()}
        yield orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE)

    def _encode_piece(self, content: bytes) -> bytes:
        head = {**self._head, "piece": self._pieces}
        self._digest.update(content)
        self._pieces += 1
        return orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE) + content


class CheckpointDecoder:
    """Joins the pieces of one checkpoint, and ignores other pieces."""

    def __init__(self, position: JournalPosition) -> None:
        self._position = position
        self._contents: list[bytes] = []
        self._next_piece = 0

    def feed(self, piece: CheckpointPiece, content: bytes) -> Checkpoint | None:
        """Add the next piece; return the checkpoint if the piece completes it."""
        if get_position(piece) != self._position:
            return None
        if piece.piece == 0:
            # Also if a writer has started again after a failure.
            self._contents, self._next_piece = [], 0
        if piece.piece != self._next_piece:
            self._next_piece = -1  # a piece is missing
            return None
        self._next_piece += 1
        end = piece.end
        if end is None:
            self._contents.append(content)
            return None
        self._next_piece = -1
        joined = b"".join(self._contents)
        if (end.pieces, end.sha256) != (piece.piece, sha256(joined).hexdigest()):
            return None
        rows = tuple(_read_rows(joined))
        return Checkpoint(self._position, piece.now_ms, rows) if len(rows) == end.rows else None


def _read_rows(content: bytes) -> Iterator[Row]:
    start = 0
    while start < len(content):
        line_end = content.index(b"\n", start)
        key, length = orjson.loads(content[start:line_end])
        start = line_end + 1 + length
        yield key, content[line_end + 1 : start]


class CheckpointFinder:
    """Finds the checkpoints of a partition that have all pieces; `CheckpointDecoder` checks the content."""

    def __init__(self, partition: int) -> None:
        self._partition = partition
        self._incomplete: dict[JournalPosition, tuple[int, int]] = {}
        """Offset of the first piece, and number of the next piece, of each incomplete checkpoint."""
        self.found: list[FoundCheckpoint] = []
        """Complete checkpoints, in the order of their last pieces."""

    def feed(self, offset: int, value: bytes | None) -> FoundCheckpoint | None:
        """Read the next record; return the checkpoint that it completes, or None."""
        piece_and_content = read_piece(self._partition, value)
        if piece_and_content is None:
            return None
        piece, _ = piece_and_content
        position = get_position(piece)
        if piece.piece == 0:
            self._incomplete[position] = offset, 0
        first_offset, next_piece = self._incomplete.pop(position, (-1, -1))
        if piece.piece != next_piece:
            return None  # an earlier piece is missing
        if piece.end is None:
            self._incomplete[position] = first_offset, next_piece + 1
            return None
        self.found.append(FoundCheckpoint(position, piece.now_ms, first_offset, offset))
        return self.found[-1]


def read_piece(partition: int, value: bytes | None) -> tuple[CheckpointPiece, bytes] | None:
    """Return head and content of a piece; None: the record is not a piece of the partition."""
    line, _, content = (value or b"").partition(b"\n")
    piece = decode_as(CheckpointPiece, line, PIECE_HEAD_BYTES_MAX)
    if isinstance(piece, Refusal) or piece.partition != partition:
        return None
    return piece, content


def get_position(piece: CheckpointPiece) -> JournalPosition:
    return JournalPosition(piece.epoch, piece.sequence, piece.offset)


def matches_position(position: JournalPosition, value: bytes | None) -> bool:
    """Tell whether the journal record at the position's offset belongs to the position.

    If not, the journal was deleted and created again after the checkpoint. An opening record has only an
    epoch; `JournalReader` then checks the number of the next batch.
    """
    record_and_content = read_record(value)
    if isinstance(record_and_content, Refusal):
        return False
    record = record_and_content[0]
    if record.opens:
        return position.epoch == position.offset
    ends_batch = record.part == record.parts - 1
    return ends_batch and (record.epoch, record.sequence) == (position.epoch, position.sequence)
