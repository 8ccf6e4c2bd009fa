"""Checkpoints: the rows of a partition to pieces, and pieces to rows again.

    rows at a place of the journal ──▶ `Cutter` ──▶ pieces, the last one with counts and a digest
    pieces ──▶ `Finder` ──▶ which checkpoints are whole ──▶ `Assembler` ──▶ the rows of one of them

The rows are one content, which is cut into pieces anywhere (`schemas.messages.checkpoints`). Pieces of two
writers may stand between each other (one had lost the partition and did not know it yet); each
checkpoint is identified by its place, and no two writers have the same epoch. What is not whole is
not there. Not judged here: whether the journal goes on at that place. Pure: rows in, bytes out, and
back.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

from schemas.base.limits import PIECE_BYTES_MAX, PIECE_HEAD_BYTES_MAX
from schemas.base.pieces import split_pieces
from schemas.base.refusals import Refusal
from schemas.messages.checkpoints import CheckpointEnd, CheckpointPiece
from schemas.topics.codec import decode_as
from streams.stage.journal import JournalPlace
from streams.stage.journal_records import read_record

TOPIC = "checkpoints"

#: Bytes of content in one piece.
PIECE_BYTES = PIECE_BYTES_MAX
#: Most checkpoints that are followed at a time; for another one the oldest is given up.
OPEN_MAX = 16

#: Key and value.
Row = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class FoundCheckpoint:
    """A whole checkpoint."""

    place: JournalPlace
    """What its rows reflect."""
    now_ms: int | None
    """The log's time there; none: before its clock ticked first."""
    first_offset: int
    """Offset of its first piece."""
    last_offset: int
    """Offset of its closing piece."""


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """Rows, and what they reflect."""

    place: JournalPlace
    now_ms: int | None
    rows: tuple[Row, ...]
    """Of the tables as they are written, packed ones packed."""


class Cutter:
    """Makes the pieces of one checkpoint; `take` rows, then `close`."""

    def __init__(
        self,
        partition: int,
        place: JournalPlace,
        now_ms: int | None,
        piece_bytes: int = PIECE_BYTES,
    ) -> None:
        """`piece_bytes`: of the content of every piece but the last."""
        self._head: dict[str, Any] = {
            "schema_version": 1,
            "partition": partition,
            "epoch": place.epoch,
            "sequence": place.sequence,
            "offset": place.offset,
        }
        if now_ms is not None:
            self._head["now_ms"] = now_ms
        self._piece_bytes = piece_bytes
        self._digest = sha256()
        self._content = bytearray()
        self._pieces = 0
        self._count = 0

    def take(self, rows: Iterable[Row]) -> Iterator[bytes]:
        """Add rows; gives the pieces that they fill."""
        for key, value in rows:
            self._count += 1
            self._content += orjson.dumps([key, len(value)], option=orjson.OPT_APPEND_NEWLINE)
            self._content += value
            full = len(self._content) // self._piece_bytes * self._piece_bytes
            if full:
                yield from map(
                    self._piece, split_pieces(bytes(self._content[:full]), self._piece_bytes)
                )
                del self._content[:full]

    def close(self) -> Iterator[bytes]:
        """What is left, and the closing piece."""
        if self._content:
            yield self._piece(bytes(self._content))
        end = CheckpointEnd(pieces=self._pieces, rows=self._count, sha256=self._digest.hexdigest())
        head = {**self._head, "piece": self._pieces, "end": end.model_dump()}
        yield orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE)

    def _piece(self, content: bytes) -> bytes:
        head = {**self._head, "piece": self._pieces}
        self._digest.update(content)
        self._pieces += 1
        return orjson.dumps(head, option=orjson.OPT_APPEND_NEWLINE) + content


class Assembler:
    """Puts the pieces of one checkpoint together, those of others left out."""

    def __init__(self, place: JournalPlace, *, keep: bool = True) -> None:
        """`keep`: rows are wanted, and not only whether they are whole."""
        self._place = place
        self._keep = keep
        self._begin()

    def _begin(self) -> None:
        self._contents: list[bytes] = []
        self._digest = sha256()
        self._following = 0

    def take(self, piece: CheckpointPiece, content: bytes) -> Checkpoint | None:
        """Add the piece that follows; answers with the checkpoint that it completes."""
        if place_of(piece) != self._place:
            return None
        if piece.piece == 0:
            self._begin()  # also where a writer began again, as its brokers had not taken a piece
        if piece.piece != self._following:
            self._following = -1  # one is missing: it never becomes whole
            return None
        self._following += 1
        end = piece.end
        if end is None:
            self._digest.update(content)
            if self._keep:
                self._contents.append(content)
            return None
        self._following = -1
        if (end.pieces, end.sha256) != (piece.piece, self._digest.hexdigest()):
            return None
        rows = tuple(_read_rows(b"".join(self._contents)))
        if self._keep and len(rows) != end.rows:
            return None
        return Checkpoint(self._place, piece.now_ms, rows)


def _read_rows(content: bytes) -> Iterator[Row]:
    """The rows of whole content, whose digest is right."""
    begin = 0
    while begin < len(content):
        line_end = content.index(b"\n", begin)
        key, length = orjson.loads(content[begin:line_end])
        begin = line_end + 1 + length
        yield key, content[line_end + 1 : begin]


class Finder:
    """Finds the whole checkpoints of a partition; holds rows only of those under way."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self._open: dict[JournalPlace, tuple[int, Assembler]] = {}
        self.found: list[FoundCheckpoint] = []
        """In the order in which they were completed."""
        self.unreadable = 0
        """Records that are no pieces."""

    def take(self, offset: int, value: bytes | None) -> FoundCheckpoint | None:
        """Look at the record that follows; return the checkpoint that it completes."""
        read = read_piece(self.partition, value)
        if read is None:
            self.unreadable += 1
            return None
        piece, content = read
        place = place_of(piece)
        if piece.piece == 0:
            self._open.pop(place, None)
            while len(self._open) >= OPEN_MAX:
                del self._open[next(iter(self._open))]
            self._open[place] = offset, Assembler(place, keep=False)
        if place not in self._open:
            return None  # its first piece is gone, or it was given up
        first, assembler = self._open[place]
        whole = assembler.take(piece, content)
        if piece.end is not None:
            del self._open[place]
        if whole is None:
            return None
        found = FoundCheckpoint(place, whole.now_ms, first, offset)
        self.found.append(found)
        return found

    @property
    def incomplete(self) -> int:
        """How many began and were not completed."""
        return len(self._open)


def read_piece(partition: int, value: bytes | None) -> tuple[CheckpointPiece, bytes] | None:
    """Head and content of a piece of the partition; None: it is none."""
    line, _, content = (value or b"").partition(b"\n")
    piece = decode_as(CheckpointPiece, line, PIECE_HEAD_BYTES_MAX)
    if isinstance(piece, Refusal) or piece.partition != partition:
        return None
    return piece, content


def place_of(piece: CheckpointPiece) -> JournalPlace:
    """The place in the journal that the rows reflect."""
    return JournalPlace(piece.epoch, piece.sequence, piece.offset)


def is_place(place: JournalPlace, value: bytes | None) -> bool:
    """Whether a journal record, the one at the place's offset, is what the place says.

    Otherwise the checkpoint is of another journal than this one: the topic was deleted and made
    again. Of an opening record the epoch alone is known; the number of the batch after it tells the
    rest.
    """
    found = read_record(value)
    if isinstance(found, Refusal):
        return False
    record = found[0]
    if record.opens:
        return place.epoch == place.offset
    ended = record.part == record.parts - 1
    return ended and (record.epoch, record.sequence) == (place.epoch, place.sequence)
