"""Complete checkpoints are restored, incomplete ones are ignored."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from schemas.base.limits import VALUE_BYTES_MAX
from schemas.messages.journal import JournalRecord
from schemas.topics.codec import encode
from streams.stage.checkpoint import (
    PIECE_BYTES,
    Checkpoint,
    CheckpointDecoder,
    CheckpointEncoder,
    CheckpointFinder,
    FoundCheckpoint,
    Row,
    matches_position,
    read_piece,
)
from streams.stage.journal import JournalPosition

_PLACE = JournalPosition(4, 17, 23)
_NOW_MS = 1_790_000_000_000
_ROWS: tuple[Row, ...] = (
    ("2/c/nodes/a", b'{"node":"a"}'),
    ("2/c/nodes/b", '{"node":"é€𝄞"}'.encode()),
    ("2//partitions/", b"{}"),
)

_rows = st.lists(
    st.tuples(
        st.text(max_size=8),
        st.text(max_size=60).map(str.encode),
    ),
    max_size=12,
)


def _cut(
    rows: tuple[Row, ...] = _ROWS,
    position: JournalPosition = _PLACE,
    now_ms: int | None = _NOW_MS,
    size: int = 40,
) -> list[bytes]:
    encoder = CheckpointEncoder(2, position, now_ms, size)
    return [*encoder.add(rows), *encoder.close()]


def _find_checkpoints(values: list[bytes]) -> list[FoundCheckpoint]:
    finder = CheckpointFinder(2)
    for offset, value in enumerate(values):
        finder.feed(offset, value)
    return finder.found


def _assembled(values: list[bytes], position: JournalPosition = _PLACE) -> Checkpoint | None:
    decoder = CheckpointDecoder(position)
    pieces = [read_piece(2, value) for value in values]
    results = [decoder.feed(*piece) for piece in pieces if piece is not None]
    return next((result for result in results if result is not None), None)


@given(_rows, st.integers(1, 80), st.sampled_from((None, _NOW_MS)))
def test_rows_come_back_as_they_were_in_pieces_of_bounded_size(
    rows: list[Row], size: int, now_ms: int | None
) -> None:
    values = _cut(tuple(rows), now_ms=now_ms, size=size)
    assert _assembled(values) == Checkpoint(_PLACE, now_ms, tuple(rows))
    assert _find_checkpoints(values) == [FoundCheckpoint(_PLACE, now_ms, 0, len(values) - 1)]
    contents = [value.partition(b"\n")[2] for value in values]
    assert all(len(content) <= size for content in contents)
    assert contents[-1] == b"", "the closing piece"


def test_a_piece_is_under_a_mebibyte_whatever_is_in_it() -> None:
    worst = b'"' * 3_000_000
    values = _cut((("2/c/nodes/a", worst), *_ROWS), size=PIECE_BYTES)
    assert len(values) > 4
    assert max(map(len, values)) < 1024 * 1024 < VALUE_BYTES_MAX
    whole = _assembled(values)
    assert whole is not None
    assert whole.rows[0][1] == worst


def test_a_checkpoint_without_one_of_its_pieces_is_ignored() -> None:
    values = _cut(size=20)
    assert len(values) >= 4
    for missing in range(len(values)):
        remaining = values[:missing] + values[missing + 1 :]
        assert (_find_checkpoints(remaining), _assembled(remaining)) == ([], None)
    swapped = [values[1], values[0], *values[2:]]
    assert _find_checkpoints(swapped) == []


@given(st.data())
def test_a_checkpoint_with_a_damaged_piece_is_ignored(data: st.DataObject) -> None:
    values = _cut()
    number = data.draw(st.integers(0, len(values) - 1))
    line, _, content = values[number].partition(b"\n")
    piece: dict[str, Any] = orjson.loads(line)
    end = piece.get("end")
    if end is not None:
        field = data.draw(st.sampled_from(("pieces", "rows", "sha256")))
        end[field] = end[field][::-1] if field == "sha256" else end[field] + 1
        values[number] = orjson.dumps(piece)
    else:
        index = data.draw(st.integers(0, len(content) - 1))
        values[number] = line + b"\n" + content[:index] + b"\0" + content[index + 1 :]
    assert _assembled(values) is None


@pytest.mark.parametrize("value", [None, b"", b"\xff", b"{}", b'{"schema_version":2}'])
def test_foreign_records_are_skipped(value: bytes | None) -> None:
    finder = CheckpointFinder(2)
    values = _cut()
    for offset, record in enumerate([values[0], value, *values[1:]]):
        finder.feed(offset, record)
    assert len(finder.found) == 1


def test_interleaved_pieces_of_two_writers_are_distinguished() -> None:
    theirs, ours = JournalPosition(2, 16, 20), JournalPosition(30, 19, 33)
    old, new = _cut(position=theirs), _cut(_ROWS[1:], position=ours)
    mixed = [piece for pair in zip(old, new, strict=False) for piece in pair]
    mixed += new[len(old) :]
    positions = [checkpoint.position for checkpoint in _find_checkpoints(mixed)]
    assert positions == [ours], "the old one has no closing piece"
    whole = _assembled(mixed, ours)
    assert whole is not None
    assert whole.rows == _ROWS[1:]


def test_the_journal_must_match_the_place_of_the_checkpoint() -> None:
    def record(**values: Any) -> bytes:
        return encode(JournalRecord(**({"partition": 2, "epoch": 4, "sequence": 17} | values)))

    assert matches_position(_PLACE, record())
    assert matches_position(_PLACE, record(part=1, parts=2))
    assert not matches_position(_PLACE, record(part=0, parts=2)), "the batch goes on"
    assert not matches_position(_PLACE, record(sequence=18))
    assert not matches_position(_PLACE, record(epoch=5)), "another journal, or another writer"
    assert not matches_position(_PLACE, record(opens=True))
    assert matches_position(JournalPosition(23, 17, 23), record(opens=True))
    assert not matches_position(_PLACE, b"{}")
    assert not matches_position(_PLACE, None)
