"""Rows that are longer than one record of a changelog may be: cut into several, and joined again.

    short row    key ─▶ value, one record
    long row     chunk keys ─▶ chunks, then key ─▶ head, which names their version and how many they are;
                 then the chunks of the version before are removed

A version is a digest of the row, so its chunks never take the place of another version's. A reader
therefore finds the row as it was or as it is now, wherever writing has ended: chunks that no head
names are no row, and are removed when the row is written next. No row is JSON and begins as a head
does. The key of a chunk is partition/cluster/chunks/version/number/kind/name, with kind and name of
its row. Pure: rows in, records out, and back.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256

import orjson

from schemas.base.limits import PIECE_BYTES_MAX
from schemas.base.pieces import split_pieces
from schemas.storage.tables import kind_of_key
from streams.stage.records import DamagedTable, RowChange

#: Bytes of one chunk; a row of at most this size is written as it is.
CHUNK_BYTES = PIECE_BYTES_MAX

#: Kind in the keys of chunks.
_CHUNKS = "chunks"
#: A head begins with it.
_MARK = b"\0"


def is_chunk(key: str) -> bool:
    """Whether a record of a changelog is a part of a row and no row itself."""
    return kind_of_key(key) == _CHUNKS


def row_of(chunk_key: str) -> str:
    """Key of the row that a chunk belongs to."""
    partition, cluster, _, _, _, row = chunk_key.split("/", 5)
    return f"{partition}/{cluster}/{row}"


def records(change: RowChange, present: Iterable[str]) -> Iterator[RowChange]:
    """The records that write a row, in the order in which they must be written.

    Args:
        change: the row as it is now.
        present: keys of the chunks of this row that the changelog may have.
    """
    chunks: list[RowChange] = []
    value = change.value
    if value is not None and len(value) > CHUNK_BYTES:
        version = _version(value)
        chunks = [
            RowChange(_chunk_key(change.key, version, number), piece)
            for number, piece in enumerate(split_pieces(value, CHUNK_BYTES))
        ]
        value = _MARK + orjson.dumps({"version": version, "chunks": len(chunks)})
    yield from chunks
    yield RowChange(change.key, value)
    written = {chunk.key for chunk in chunks}
    for key in present:
        if key not in written:
            yield RowChange(key, None)


def named(key: str, value: bytes | None) -> Sequence[str]:
    """Keys of the chunks that a row's record names, in their order; none: it is the row itself."""
    if value is None or not value.startswith(_MARK):
        return ()
    head = orjson.loads(value[1:])
    return [_chunk_key(key, head["version"], number) for number in range(head["chunks"])]


def joined(key: str, value: bytes, chunk: Callable[[bytes], bytes | None]) -> bytes:
    """The whole row.

    Args:
        key: its key.
        value: what stands under the key: the row, or the head of a long one.
        chunk: what stands under the key of a chunk; None: nothing.

    Raises:
        DamagedTable: a chunk is missing, or is of something else.
    """
    if not value.startswith(_MARK):
        return value
    try:
        parts = [chunk(each.encode()) for each in named(key, value)]
        version = orjson.loads(value[1:])["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedTable(key, f"the head of its chunks cannot be read: {error!r}") from None
    found = b"".join(part for part in parts if part is not None)
    if None in parts or sha256(found).hexdigest()[:24] != version.partition("-")[0]:
        there = sum(part is not None for part in parts)
        raise DamagedTable(
            key,
            f"it is cut into {len(parts)} chunks, of which {there} are there, or they were altered",
        )
    return found


def _chunk_key(key: str, version: str, number: int) -> str:
    partition, cluster, row = key.split("/", 2)
    return f"{partition}/{cluster}/{_CHUNKS}/{version}/{number}/{row}"


def _version(value: bytes) -> str:
    """Distinguishes contents, and the same one cut in another way."""
    return f"{sha256(value).hexdigest()[:24]}-{CHUNK_BYTES}"
