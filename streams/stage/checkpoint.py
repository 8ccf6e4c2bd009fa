"""Encodes the rows of a partition as a checkpoint, and decodes them again.

    rows at a journal position ──▶ `CheckpointEncoder` ──▶ pieces; the last one has counts and a digest
    pieces ──▶ `CheckpointFinder` ──▶ complete checkpoints ──▶ `CheckpointDecoder` ──▶ rows of one checkpoint

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
#: Incomplete checkpoints to remember; a further checkpoint replaces the oldest.
INCOMPLETE_MAX = 16

#: Key and value.
Row = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A complete checkpoint in topic `checkpoints`."""

    position: JournalPosition
    """The journal position that its rows reflect."""
    now_ms: int | None
    """Log time; None: before the first clock tick."""
    first_offset: int
    """Offset of the first piece."""
    last_offset: int
    """Offset of the last piece."""


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

    def __init__(self, position: JournalPosition, *, keep: bool = True) -> None:
        """Without `keep`, only check whether the checkpoint is complete, and return no rows."""
        self._position = position
        self._keep = keep
        self._reset()

    def _reset(self) -> None:
        self._contents: list[bytes] = []
        self._digest = sha256()
        self._next_piece = 0

    def feed(self, piece: CheckpointPiece, content: bytes) -> Checkpoint | None:
        """Add the next piece; return the checkpoint if the piece completes it."""
        if get_position(piece) != self._position:
            return None
        if piece.piece == 0:
            self._reset()  # also if a writer has started again after a failure
        if piece.piece != self._next_piece:
            self._next_piece = -1  # a piece is missing
            return None
        self._next_piece += 1
        end = piece.end
        if end is None:
            self._digest.update(content)
            if self._keep:
                self._contents.append(content)
            return None
        self._next_piece = -1
        if (end.pieces, end.sha256) != (piece.piece, self._digest.hexdigest()):
            return None
        rows = tuple(_read_rows(b"".join(self._contents)))
        if self._keep and len(rows) != end.rows:
            return None
        return Checkpoint(self._position, piece.now_ms, rows)


def _read_rows(content: bytes) -> Iterator[Row]:
    start = 0
    while start < len(content):
        line_end = content.index(b"\n", start)
        key, length = orjson.loads(content[start:line_end])
        start = line_end + 1 + length
        yield key, content[line_end + 1 : start]


class CheckpointFinder:
    """Finds the complete checkpoints of a partition."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self._incomplete: dict[JournalPosition, tuple[int, CheckpointDecoder]] = {}
        """Offset of the first piece, and decoder, of each incomplete checkpoint."""
        self.found: list[FoundCheckpoint] = []
        """Complete checkpoints, in the order of their last pieces."""
        self.unreadable_count = 0
        """Number of records that are not pieces."""

    def feed(self, offset: int, value: bytes | None) -> FoundCheckpoint | None:
        """Read the next record; return the checkpoint that it completes, or None."""
        piece_and_content = read_piece(self.partition, value)
        if piece_and_content is None:
            self.unreadable_count += 1
            return None
        piece, content = piece_and_content
        position = get_position(piece)
        if piece.piece == 0:
            self._incomplete.pop(position, None)
            while len(self._incomplete) >= INCOMPLETE_MAX:
                del self._incomplete[next(iter(self._incomplete))]
            self._incomplete[position] = offset, CheckpointDecoder(position, keep=False)
        if position not in self._incomplete:
            return None  # the first piece was deleted, or later checkpoints replaced this one
        first_offset, decoder = self._incomplete[position]
        checkpoint = decoder.feed(piece, content)
        if piece.end is not None:
            del self._incomplete[position]
        if checkpoint is None:
            return None
        found = FoundCheckpoint(position, checkpoint.now_ms, first_offset, offset)
        self.found.append(found)
        return found

    @property
    def incomplete_count(self) -> int:
        return len(self._incomplete)


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
