"""Splits rows that are longer than a record of a changelog, and joins them again.

    short row    one record: key ─▶ value
    long row     1. chunk keys ─▶ chunks
                 2. key ─▶ head, with version and number of the chunks
                 3. chunks of the previous version are removed

The version is a digest of the row, so chunks of different versions have different keys. If writing is
interrupted, readers find the old row or the new one. Chunks without a head are ignored, and removed when
the row is written again. The key of a chunk is partition/cluster/chunks/version/number/kind/name, with
kind and name of the row.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256

import orjson

from schemas.base.limits import PIECE_BYTES_MAX, split_pieces
from schemas.storage.tables import kind_of_key
from streams.stage.records import DamagedTable, RowChange

#: Bytes of a chunk; a row of at most this size is one record.
CHUNK_BYTES = PIECE_BYTES_MAX

#: Kind in the keys of chunks.
_CHUNKS = "chunks"
#: First byte of a head; rows are JSON and do not begin with it.
_MARK = b"\0"


def is_chunk(key: str) -> bool:
    return kind_of_key(key) == _CHUNKS


def row_key_of_chunk(chunk_key: str) -> str:
    """Return the key of the row that a chunk belongs to."""
    partition, cluster, _, _, _, row = chunk_key.split("/", 5)
    return f"{partition}/{cluster}/{row}"


def split_change(change: RowChange, present: Iterable[str]) -> Iterator[RowChange]:
    """Yield the records that write a row, in the order in which they must be written.

    Args:
        change: the new row.
        present: keys of the row's chunks that the changelog may have.
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


def chunk_keys(key: str, value: bytes | None) -> Sequence[str]:
    """Return the keys of the chunks in a head, in order; empty if the value is a short row."""
    if value is None or not value.startswith(_MARK):
        return ()
    head = orjson.loads(value[1:])
    return [_chunk_key(key, head["version"], number) for number in range(head["chunks"])]


def join_chunks(key: str, value: bytes, chunk: Callable[[bytes], bytes | None]) -> bytes:
    """Return the complete row.

    Args:
        key: key of the row.
        value: value of the key: the row, or the head of a long row.
        chunk: returns the value of a chunk's key, or None.

    Raises:
        DamagedTable: a chunk is missing or was changed.
    """
    if not value.startswith(_MARK):
        return value
    try:
        parts = [chunk(chunk_key.encode()) for chunk_key in chunk_keys(key, value)]
        version = orjson.loads(value[1:])["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedTable(key, f"the head of its chunks cannot be read: {error!r}") from None
    content = b"".join(part for part in parts if part is not None)
    if None in parts or sha256(content).hexdigest()[:24] != version.partition("-")[0]:
        found_count = sum(part is not None for part in parts)
        raise DamagedTable(
            key,
            f"chunks are missing or were changed: {found_count} of its {len(parts)} chunks were found",
        )
    return content


def _chunk_key(key: str, version: str, number: int) -> str:
    partition, cluster, row = key.split("/", 2)
    return f"{partition}/{cluster}/{_CHUNKS}/{version}/{number}/{row}"


def _version(value: bytes) -> str:
    """Return a digest of the row, with the size of its chunks."""
    return f"{sha256(value).hexdigest()[:24]}-{CHUNK_BYTES}"
