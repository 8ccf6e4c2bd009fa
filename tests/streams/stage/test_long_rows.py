"""Rows longer than a record: whatever was written before writing ended, a reader finds a whole row."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base.limits import BATCH_BYTES_MAX, PIECE_BYTES_MAX, PIECE_HEAD_BYTES_MAX
from streams.stage import long_rows
from streams.stage.long_rows import (
    CHUNK_BYTES,
    is_chunk,
    join_chunks,
    parse_chunk_key,
    split_change,
)
from streams.stage.records import DamagedTable, RowChange

_KEY = "3/c/nodes/node/with/slashes"
_VALUES = st.one_of(st.none(), st.binary(max_size=60).map(lambda tail: b"{" + tail))


class Changelog:
    """The newest record of each key, as a reader finds it."""

    def __init__(self) -> None:
        self.data: dict[bytes, bytes] = {}

    def write(self, value: bytes | None, stop: int | None = None) -> list[RowChange]:
        """Write a row; `stop`: how many of its records arrive."""
        present = [name for key in self.data if is_chunk(name := key.decode())]
        records = list(split_change(RowChange(_KEY, value), present))
        for record in records[:stop]:
            if record.value is None:
                self.data.pop(record.key.encode(), None)
            else:
                self.data[record.key.encode()] = record.value
        return records

    @property
    def row(self) -> bytes | None:
        """The row as a reader sees it."""
        value = self.data.get(_KEY.encode())
        return None if value is None else join_chunks(_KEY, value, self.data.get)


@pytest.fixture(autouse=True)
def _short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(long_rows, "CHUNK_BYTES", 8)


def test_chunks_fit_into_the_records_they_are_written_to() -> None:
    assert CHUNK_BYTES == PIECE_BYTES_MAX
    assert PIECE_BYTES_MAX + PIECE_HEAD_BYTES_MAX < 1_000_000 < BATCH_BYTES_MAX
    records = Changelog().write(b"{" + bytes(100))
    assert all(len(record.value or b"") <= 8 for record in records[:-1])
    chunks = [record.key for record in records if is_chunk(record.key)]
    assert all(key.startswith("3/c/") for key in chunks), (
        "a key begins with its partition and cluster"
    )
    assert {parse_chunk_key(key) for key in chunks} == {_KEY}


@given(st.lists(_VALUES, min_size=1, max_size=5), st.data())
def test_an_interrupted_write_leaves_the_old_or_the_new_row(
    values: list[bytes | None], data: st.DataObject
) -> None:
    changelog = Changelog()
    before: bytes | None = None
    for value in values:
        stop = data.draw(st.one_of(st.none(), st.integers(0, 12)))
        changelog.write(value, stop)
        assert changelog.row in ((value,) if stop is None else (before, value))
        before = changelog.row
    changelog.write(b"{}")
    assert changelog.data == {_KEY.encode(): b"{}"}, "what earlier writing had left is gone"


def test_a_row_without_one_of_its_chunks_is_damaged() -> None:
    changelog = Changelog()
    changelog.write(b"{" + bytes(30))
    gone = next(key for key in changelog.data if is_chunk(key.decode()))
    kept = changelog.data.pop(gone)
    with pytest.raises(DamagedTable, match="3 of its 4 chunks were found"):
        _ = changelog.row
    changelog.data[gone] = kept[:-1]
    with pytest.raises(DamagedTable, match="chunks are missing or were changed: 4 of its 4"):
        _ = changelog.row


@pytest.mark.parametrize("head", [b"\0", b"\0{}", b"\0[]", b'\0{"version":7,"chunks":"x"}'])
def test_a_head_that_cannot_be_read_is_damage(head: bytes) -> None:
    with pytest.raises(DamagedTable, match="the head of its chunks cannot be read"):
        join_chunks(_KEY, head, dict[bytes, bytes]().get)
