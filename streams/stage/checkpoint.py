"""Checkpoints: the rows of a partition to pieces, and pieces to rows again.

    rows at a place of the journal ──▶ `Cutter` ──▶ pieces, the last one with counts and a digest
    pieces ──▶ `Finder` ──▶ which checkpoints are whole ──▶ `Assembler` ──▶ the rows of one of them

A piece is bounded whatever rows there are: a row too long for one goes on in the next. Pieces of
two writers may stand between each other (one had lost the partition and did not know it yet); each
checkpoint is identified by its place, and no two writers have the same epoch. What is not whole is
not there. Not judged here: whether the journal goes on at that place. Pure: rows in, bytes out, and
back.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

from schemas.checkpoints import CheckpointEnd, CheckpointPiece
from schemas.codec import decode_as
from schemas.refusals import Refusal
from streams.stage.journal import Place
from streams.stage.journal_records import read_record

TOPIC = "checkpoints"

#: Bytes of keys and values in one piece. JSON within JSON is at most twice as long, so a piece
#: stays under the 1 MiB that brokers take by default.
PIECE_BYTES = 400_000
#: Most checkpoints that are followed at a time; for another one the oldest is given up.
OPEN_MAX = 16

#: Key and value.
Row = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class Found:
    """A whole checkpoint."""

    place: Place
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

    place: Place
    now_ms: int | None
    rows: tuple[Row, ...]
    """Of the tables as they are written, packed ones packed."""


class _Digest:
    """Over rows in their order."""

    def __init__(self) -> None:
        self._hash = sha256()

    def add(self, key: str, value: Iterable[bytes]) -> None:
        for part in ((key.encode(),), value):
            length = 0
            for each in part:
                self._hash.update(each)
                length += len(each)
            self._hash.update(length.to_bytes(8, "big"))

    def hexdigest(self) -> str:
        return self._hash.hexdigest()


class Cutter:
    """Makes the pieces of one checkpoint; `take` rows, then `close`."""

    def __init__(
        self, partition: int, place: Place, now_ms: int | None, piece_bytes: int = PIECE_BYTES
    ) -> None:
        """`piece_bytes` bounds keys and values in a piece; a key is never cut."""
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
        self._digest = _Digest()
        self._rows: list[dict[str, Any]] = []
        self._size = 0
        self._pieces = 0
        self._count = 0

    def take(self, rows: Iterable[Row]) -> Iterator[bytes]:
        """Add rows; gives the pieces that they fill. Values are JSON, thus UTF-8."""
        for key, value in rows:
            self._digest.add(key, (value,))
            self._count += 1
            key_bytes = len(key.encode())
            if self._rows and self._size + key_bytes + len(value) > self._piece_bytes:
                yield self._piece()
            begin, room = 0, max(4, self._piece_bytes - key_bytes)  # a character at least
            while len(value) - begin > room:
                end = begin + room
                while value[end] & 0xC0 == 0x80:  # not within a character
                    end -= 1
                self._add(key, value[begin:end], continued=True)
                yield self._piece()
                begin = end
            self._add(key, value[begin:])

    def close(self) -> Iterator[bytes]:
        """What is left, and the closing piece."""
        if self._rows:
            yield self._piece()
        end = CheckpointEnd(pieces=self._pieces, rows=self._count, sha256=self._digest.hexdigest())
        yield orjson.dumps({**self._head, "piece": self._pieces, "end": end.model_dump()})

    def _add(self, key: str, value: bytes, *, continued: bool = False) -> None:
        row: dict[str, Any] = {"key": key, "value": value.decode()}
        if continued:
            row["continued"] = True
        self._rows.append(row)
        self._size += len(key.encode()) + len(value)

    def _piece(self) -> bytes:
        piece = orjson.dumps({**self._head, "piece": self._pieces, "rows": self._rows})
        self._pieces += 1
        self._rows, self._size = [], 0
        return piece


class Assembler:
    """Puts the pieces of one checkpoint together, those of others left out."""

    def __init__(self, place: Place, *, keep: bool = True) -> None:
        """`keep`: rows are wanted, and not only whether they are whole."""
        self._place = place
        self._keep = keep
        self._begin()

    def _begin(self) -> None:
        self._rows: list[Row] = []
        self._digest = _Digest()
        self._following = 0
        self._count = 0
        self._open: tuple[str, list[bytes]] | None = None
        """A row that is continued."""

    def take(self, piece: CheckpointPiece) -> Checkpoint | None:
        """Add the piece that follows; answers with the checkpoint that it completes."""
        if place_of(piece) != self._place:
            return None
        if piece.piece == 0:
            self._begin()  # also where a writer began again, as its brokers had not taken a piece
        if piece.piece != self._following:
            self._following = -1  # one is missing: it never becomes whole
            return None
        self._following += 1
        if not all(self._add(row.key, row.value.encode(), row.continued) for row in piece.rows):
            self._following = -1
            return None
        end = piece.end
        if end is None:
            return None
        whole = self._open is None and (end.pieces, end.rows, end.sha256) == (
            piece.piece,
            self._count,
            self._digest.hexdigest(),
        )
        rows, self._following = tuple(self._rows), -1
        return Checkpoint(self._place, piece.now_ms, rows) if whole else None

    def _add(self, key: str, value: bytes, continued: bool) -> bool:
        """Whether it is a row that may come here."""
        parts = [value]
        if self._open is not None:
            of, parts = self._open
            if of != key:
                return False
            parts.append(value)
        self._open = (key, parts) if continued else None
        if not continued:
            self._digest.add(key, parts)
            self._count += 1
            if self._keep:
                self._rows.append((key, b"".join(parts)))
        return True


class Finder:
    """Finds the whole checkpoints of a partition; holds rows only of those under way."""

    def __init__(self, partition: int) -> None:
        self.partition = partition
        self._open: dict[Place, tuple[int, Assembler]] = {}
        self.found: list[Found] = []
        """In the order in which they were completed."""
        self.unreadable = 0
        """Records that are no pieces."""

    def take(self, offset: int, value: bytes | None) -> Found | None:
        """Look at the record that follows; return the checkpoint that it completes."""
        piece = read_piece(self.partition, value)
        if piece is None:
            self.unreadable += 1
            return None
        place = place_of(piece)
        if piece.piece == 0:
            self._open.pop(place, None)
            while len(self._open) >= OPEN_MAX:
                del self._open[next(iter(self._open))]
            self._open[place] = offset, Assembler(place, keep=False)
        if place not in self._open:
            return None  # its first piece is gone, or it was given up
        first, assembler = self._open[place]
        whole = assembler.take(piece)
        if piece.end is not None:
            del self._open[place]
        if whole is None:
            return None
        found = Found(place, whole.now_ms, first, offset)
        self.found.append(found)
        return found

    @property
    def incomplete(self) -> int:
        """How many began and were not completed."""
        return len(self._open)


def read_piece(partition: int, value: bytes | None) -> CheckpointPiece | None:
    """A piece of the partition; None: it is none."""
    piece = decode_as(CheckpointPiece, value)
    return None if isinstance(piece, Refusal) or piece.partition != partition else piece


def place_of(piece: CheckpointPiece) -> Place:
    """The place in the journal that the rows reflect."""
    return Place(piece.epoch, piece.sequence, piece.offset)


def is_place(place: Place, value: bytes | None) -> bool:
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
