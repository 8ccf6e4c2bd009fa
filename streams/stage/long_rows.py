"""Splits rows that exceed the size of a changelog record, and joins them again.

    short row    one record: key ─▶ value
    long row     1. chunk keys ─▶ chunks
                 2. key ─▶ head, with version and number of the chunks
                 3. chunks of the previous version are removed

The version is a digest of the row, so chunks of different versions have different keys. If writing is
interrupted, readers find the old row or the new row. Chunks without a head are ignored, and removed when
the row is written again. The key of a chunk is partition/cluster/chunks/version/number/kind/name, with
kind and name of the row.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from hashlib import sha256

import orjson

from schemas.base.limits import PIECE_BYTES_MAX, split_pieces
from schemas.storage.tables import kind_of_key
from streams.stage.records import DamagedTable, RowChange

#: Most bytes of a chunk, and of a row in one record.
CHUNK_BYTES = PIECE_BYTES_MAX

#: Kind in the keys of chunks.
_CHUNKS = "chunks"
#: First byte of a head; rows are JSON and do not begin with it.
_MARK = b"\0"


def is_chunk(key: str) -> bool:
    return kind_of_key(key) == _CHUNKS


def parse_chunk_key(chunk_key: str) -> str:
    """Return the key of the row that a chunk belongs to."""
    partition, cluster, _, _, _, row = chunk_key.split("/", 5)
    return f"{partition}/{cluster}/{row}"


def split_change(change: RowChange, old_chunks: Iterable[str]) -> Iterator[RowChange]:
    """Yield the changelog records of a changed row, in the order to write.

    `old_chunks` are the keys of the row's chunks that the changelog may contain.
    """
    chunks: list[RowChange] = []
    value = change.value
    if value is not None and len(value) > CHUNK_BYTES:
        version = _compute_version(value)
        chunks = [
            RowChange(_build_chunk_key(change.key, version, number), chunk)
            for number, chunk in enumerate(split_pieces(value, CHUNK_BYTES))
        ]
        value = _MARK + orjson.dumps({"version": version, "chunks": len(chunks)})
    yield from chunks
    yield RowChange(change.key, value)
    new_chunks = {chunk.key for chunk in chunks}
    for key in old_chunks:
        if key not in new_chunks:
            yield RowChange(key, None)


def list_chunk_keys(key: str, value: bytes | None) -> Sequence[str]:
    """Return the keys of a long row's chunks, in order; `value` is the head. Short rows have none."""
    if value is None or not value.startswith(_MARK):
        return ()
    head = orjson.loads(value[1:])
    return [_build_chunk_key(key, head["version"], number) for number in range(head["chunks"])]


def join_chunks(key: str, value: bytes, read: Callable[[bytes], bytes | None]) -> bytes:
    """Return the complete row.

    `value` is the row, or the head of a long row; `read` returns the value of a chunk's key.

    Raises:
        DamagedTable: a chunk is missing or was changed.
    """
    if not value.startswith(_MARK):
        return value
    try:
        chunks = [read(chunk_key.encode()) for chunk_key in list_chunk_keys(key, value)]
        version = orjson.loads(value[1:])["version"]
    except (ValueError, TypeError, KeyError) as error:
        raise DamagedTable(key, f"the head of its chunks cannot be read: {error!r}") from None
    content = b"".join(chunk for chunk in chunks if chunk is not None)
    if None in chunks or _compute_version(content) != version:
        found_count = sum(chunk is not None for chunk in chunks)
        raise DamagedTable(
            key,
            f"chunks are missing or were changed: {found_count} of its {len(chunks)} chunks were found",
        )
    return content


def _build_chunk_key(key: str, version: str, number: int) -> str:
    partition, cluster, row = key.split("/", 2)
    return f"{partition}/{cluster}/{_CHUNKS}/{version}/{number}/{row}"


def _compute_version(value: bytes) -> str:
    return sha256(value).hexdigest()[:24]
